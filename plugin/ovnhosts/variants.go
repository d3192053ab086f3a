// SPDX-License-Identifier: Apache-2.0

package ovnhosts

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/explain"
	"github.com/puntdns/puntdns/internal/ovn"
)

const (
	// maxVariants limits the names in an explanation.
	maxVariants = 4
	// maxScanned limits the scan to a few tenths of a query's 4.5 s.
	maxScanned = 1_000_000
)

// findVariants reports names with one more or one less domain, which search domains cause.
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

// withoutDomain reports whether the name ends with the domain.
func withoutDomain(name, domain string) (rest string, ok bool) {
	rest, ok = strings.CutSuffix(name, domain)
	return rest, ok && domain != "" && strings.HasSuffix(rest, ".")
}

// variants are the first maxVariants of compareVariants.
type variants []string

func (v *variants) add(name string) {
	i, known := slices.BinarySearchFunc(*v, name, compareVariants)
	if known || i == maxVariants {
		return
	}
	*v = slices.Insert(*v, i, name)
	*v = (*v)[:min(len(*v), maxVariants)]
}

// compareVariants orders by length, then by text.
func compareVariants(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

// addLonger adds readable names with more labels behind qname. It reads at most that many names, and returns
// how many are left.
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

func variantOf(qname, name, ofSwitch string) explain.Finding {
	f := explain.Finding{Code: api.CodeSearchDomain, Text: fmt.Sprintf("%s is no name of switch %s, but %s is: the guest has asked without the domain", qname, ofSwitch, name)}
	f.Remedy = fmt.Sprintf("give the guest %s as its search domain (domain_name in its DHCP options), or ask for the whole name", strings.TrimSuffix(strings.TrimPrefix(name, qname), "."))
	if len(name) < len(qname) {
		f.Text = fmt.Sprintf("%s is no name of switch %s, but %s is: the guest has put a domain behind it", qname, ofSwitch, name)
		f.Remedy = "ask for " + name + ", or, if a DNS row has it, write the longer name into the row too; a hostname of a port has the domains that `puntctl names` shows"
	}
	return f
}
