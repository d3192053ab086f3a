// SPDX-License-Identifier: Apache-2.0

package ovnhosts

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/puntdns/puntdns/internal/explain"
	"github.com/puntdns/puntdns/internal/ovn"
)

const (
	// maxVariants bounds the longer and shorter names that an explanation names.
	maxVariants = 4
	// maxScanned bounds the names that are looked at for longer ones. So many take a few tenths of a
	// second of the 4.5 s that a query has.
	maxScanned = 1_000_000
)

// findVariants finds a name that the guest's networks have with a domain behind it, or without the
// domain that the guest has put there: most guests ask for either, by their search domains.
func (h *Handler) findVariants(x *explain.Step, s *ovn.Snapshot, a *asker, qname string) {
	var known variants
	left := maxScanned
	for _, id := range a.scope.Networks() {
		n := s.Network(id)
		if n == nil {
			continue
		}
		for _, domain := range []string{a.domain, n.Domain, h.Domain} {
			if name, ok := withoutDomain(qname, domain); ok && h.hasName(n, name) {
				known.add(name)
			}
		}
		left = known.addLonger(n.EachName(h.Domain), qname, left)
	}
	if left == 0 {
		x.Notef("%d names of its networks were looked at for longer ones, and no more", maxScanned)
	}
	for _, name := range known {
		x.Find(variantOf(qname, name, a.scope.Own.Name))
	}
}

// withoutDomain returns a name without the domain at its end, and reports whether it has that.
func withoutDomain(name, domain string) (rest string, ok bool) {
	rest, ok = strings.CutSuffix(name, domain)
	return rest, ok && domain != "" && strings.HasSuffix(rest, ".")
}

// variants are the shortest names of those that were added, each once, in their order. There are
// maxVariants at most.
type variants []string

func (v *variants) add(name string) {
	i, known := slices.BinarySearchFunc(*v, name, compareVariants)
	if known || i == maxVariants {
		return
	}
	*v = slices.Insert(*v, i, name)
	*v = (*v)[:min(len(*v), maxVariants)]
}

// compareVariants compares names by their length, and those of the same length by their text.
func compareVariants(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

// addLonger adds those of many names that begin with the labels of a name, have others behind them, and
// have a value that can be read. It looks at so many names at most, and returns how many are left of
// that.
func (v *variants) addLonger(all iter.Seq2[string, bool], qname string, most int) (left int) {
	if most == 0 {
		return 0
	}
	for name, readable := range all {
		if readable && len(name) > len(qname) && strings.HasPrefix(name, qname) {
			v.add(name)
		}
		if most--; most == 0 {
			break
		}
	}
	return most
}

// variantOf finds that a switch has a longer or a shorter name.
func variantOf(qname, name, ofSwitch string) explain.Finding {
	f := explain.Finding{Code: explain.SearchDomain, Text: fmt.Sprintf("%s is no name of switch %s, but %s is: the guest has asked without the domain", qname, ofSwitch, name)}
	f.Remedy = fmt.Sprintf("give the guest %s as its search domain (domain_name in its DHCP options), or ask for the whole name", strings.TrimSuffix(strings.TrimPrefix(name, qname), "."))
	if len(name) < len(qname) {
		f.Text = fmt.Sprintf("%s is no name of switch %s, but %s is: the guest has put a domain behind it", qname, ofSwitch, name)
		f.Remedy = "names of DNS rows are known as they are written, without any domain behind them: ask for " + name + ", or write the longer name into the row too"
	}
	return f
}
