// SPDX-License-Identifier: Apache-2.0

package source

import (
	"errors"
	"fmt"
	"strings"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/plugin/rpz/rules"
)

// incremental takes the answer to IXFR (RFC 1995). It begins with the primary's SOA record, followed by one
// of these:
//
//   - nothing: the zone is up to date;
//   - a delta: for each version the SOA record of the version before it, records to delete, its own SOA
//     record, records to add; then the first SOA record again;
//   - the whole zone, as in an answer to AXFR.
type incremental struct {
	source *Source
	// before are the present rules, which do not change.
	before *rules.Rules
	// first is the first record.
	first *dns.SOA
	// At most one of whole and delta is set.
	whole *transferred
	delta *rules.Builder
	// version is the SOA record that the delta has reached. adds is set while its records are added.
	version *dns.SOA
	adds    bool
	// ended is set by the last SOA record.
	ended bool
	// records includes SOA records.
	records int
}

var (
	errVersion  = errors.New("the delta begins with another version of the zone, expected the present one")
	errChain    = errors.New("a version of the delta does not follow the one before it")
	errDeltaCut = errors.New("the delta ends before its last SOA record")
)

func (x *incremental) add(rr dns.RR) error {
	soa, isSOA := rr.(*dns.SOA)
	isSOA = isSOA && strings.EqualFold(soa.Hdr.Name, x.source.config.Zone)
	switch {
	case x.whole != nil:
		return x.whole.add(rr)
	case x.delta != nil:
		return x.change(rr, soa, isSOA)
	case x.first == nil && !isSOA:
		return errBegin
	case x.first == nil:
		x.first = soa
		return nil
	case x.upToDate():
		return nil // dns.Transfer reads no further message
	case isSOA && soa.Serial != x.first.Serial:
		return x.begin(soa)
	}
	var err error
	if x.whole, err = x.source.newTransferred(); err != nil {
		return err
	}
	if err := x.whole.add(x.first); err != nil {
		return err
	}
	return x.whole.add(rr)
}

func (x *incremental) begin(soa *dns.SOA) error {
	var err error
	if x.delta, err = x.before.Edit(x.source.config.Zone, x.source.config.Limits); err != nil {
		return err
	}
	x.version = x.before.SOA
	if !dns.IsDuplicate(soa, x.version) {
		return errVersion
	}
	x.records = 2
	return nil
}

func (x *incremental) change(rr dns.RR, soa *dns.SOA, isSOA bool) error {
	x.records++
	if most := x.source.config.Limits.Records; most > 0 && x.records > most {
		return fmt.Errorf("%w: a delta of more than %d records, expected max_records at most", rules.ErrTooLarge, most)
	}
	switch {
	case x.ended:
		return errBehind
	case isSOA && x.adds: // the end, or the next version
		if !dns.IsDuplicate(soa, x.version) {
			return errChain
		}
		x.adds = false
		x.ended = dns.IsDuplicate(soa, x.first)
		return nil
	case isSOA:
		if !newer(soa.Serial, x.version.Serial) {
			return errChain
		}
		x.version, x.adds = soa, true
		return nil
	case x.adds:
		return x.delta.Add(rr)
	default:
		return x.delta.Delete(rr)
	}
}

func (x *incremental) upToDate() bool {
	return x.first != nil && !newer(x.first.Serial, x.before.SOA.Serial)
}

// rules returns before if the zone is up to date.
func (x *incremental) rules() (*rules.Rules, error) {
	switch {
	case x.upToDate():
		return x.before, nil
	case x.whole != nil:
		return x.whole.rules()
	case x.delta == nil || !x.ended:
		return nil, errDeltaCut
	}
	x.delta.SetSOA(x.first)
	return x.delta.Rules()
}

// newer compares serial numbers (RFC 1982, section 3.2).
func newer(a, b uint32) bool { return int32(a-b) > 0 }
