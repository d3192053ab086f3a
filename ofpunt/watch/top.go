// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/origin"
	"github.com/puntdns/puntdns/internal/spacesaving"
)

const (
	// TopTick is the interval of [Top.Drain].
	TopTick = 20 * time.Millisecond
	// events of 80 ms at 100,000 a second
	topRoom = 8192
	// counters of a table, which finds each key of at least a thousandth of the queries
	topCounters = 1024
)

// Top counts queries by guest, name, network and upstream in bounded memory, on one goroutine.
type Top struct {
	reader *Reader
	limit  int
	// Count is the requested number of snapshots, each of an Interval, 0 for any number.
	Interval time.Duration
	Count    int

	begun  time.Time
	all    figures
	tables []*table
	key    []byte // buffer
}

type table struct {
	kind string
	// ok is false for an event without the key.
	appendKey func(b []byte, e *Event) ([]byte, bool)
	describe  func(*figures, *api.TopEntry)
	counts    *spacesaving.Counts[figures]
}

type figures struct {
	outcomes [outcomes]uint32
	took     histogram
	// of the counter's first event; name in wire format
	bridge, port, network string
	id                    origin.Network
	name                  []byte
	upstream              netip.AddrPort
}

const (
	noError = iota
	nxDomain
	servFail
	otherRcode
	resumed
	dropped
	outcomes
)

func outcomeOf(rcode uint16) int {
	switch rcode {
	case dns.RcodeSuccess:
		return noError
	case dns.RcodeNameError:
		return nxDomain
	case dns.RcodeServerFailure:
		return servFail
	case RcodeResumed:
		return resumed
	case RcodeDropped:
		return dropped
	}
	return otherRcode
}

func newTables(kinds []string) (all []*table) {
	for _, kind := range kinds {
		t := &table{kind: kind, counts: spacesaving.New[figures](topCounters)}
		switch kind {
		case api.TopGuests:
			t.appendKey, t.describe = guestKey, describeGuest
		case api.TopNames:
			t.appendKey, t.describe = nameKey, describeName
		case api.TopNetworks:
			t.appendKey, t.describe = networkKey, describeNetwork
		case api.TopUpstreams:
			t.appendKey, t.describe = upstreamKey, describeUpstream
		}
		all = append(all, t)
	}
	return all
}

// No name has a zero byte.
func guestKey(b []byte, e *Event) ([]byte, bool) {
	b, _ = networkKey(b, e)
	b = append(append(b, 0), e.Bridge...)
	return append(append(b, 0), e.Port...), true
}

func describeGuest(f *figures, to *api.TopEntry) {
	describeNetwork(f, to)
	to.Bridge, to.Port = f.bridge, f.port
}

// networkKey has the name for networks without UUID.
func networkKey(b []byte, e *Event) ([]byte, bool) {
	return append(append(b, e.Network[:]...), e.Switch...), true
}

func describeNetwork(f *figures, to *api.TopEntry) {
	to.Switch = f.network
	if !f.id.IsZero() {
		to.Network = f.id.String()
	}
}

// nameKey has the network, as names differ between networks.
func nameKey(b []byte, e *Event) ([]byte, bool) {
	name := e.name()
	if name == nil {
		return b, false
	}
	for _, c := range name {
		b = append(b, lower(c))
	}
	return networkKey(b, e)
}

func describeName(f *figures, to *api.TopEntry) {
	describeNetwork(f, to)
	to.Name = strings.ToLower(nameText(f.name))
}

func upstreamKey(b []byte, e *Event) ([]byte, bool) {
	if !e.Upstream.IsValid() {
		return b, false
	}
	return e.Upstream.AppendTo(b), true
}

func describeUpstream(f *figures, to *api.TopEntry) { to.Upstream = f.upstream.String() }

// NewTop parses the parameters of api.PathTop. Close the Top.
func NewTop(feed *Feed, parameters url.Values, now time.Time) (*Top, error) {
	filter, err := ParseFilter(parameters)
	if err != nil {
		return nil, err
	}
	interval, err := parseNumber(parameters, "interval", api.DefaultTopInterval, 1, api.MaxTopInterval)
	if err != nil {
		return nil, err
	}
	t := &Top{Interval: time.Duration(interval) * time.Second, begun: now}
	if t.Count, err = parseNumber(parameters, "count", 0, 0, 1<<31-1); err != nil {
		return nil, err
	}
	if t.limit, err = parseNumber(parameters, "limit", api.DefaultTopLimit, 1, api.MaxTopLimit); err != nil {
		return nil, err
	}
	kinds := slices.Compact(slices.Sorted(slices.Values(parameters["by"])))
	for _, kind := range kinds {
		if !slices.Contains(api.TopKinds, kind) {
			return nil, fmt.Errorf("by %.40q: expected %s", kind, strings.Join(api.TopKinds, ", "))
		}
	}
	if len(kinds) == 0 {
		kinds = api.TopKinds
	}
	t.tables = newTables(kinds)
	t.reader = feed.listen(filter, topRoom, nil)
	return t, nil
}

// Drain counts the waiting events.
func (t *Top) Drain() {
	var e Event
	for range topRoom { // later events wait for the next call
		if !t.reader.ring.take(&e) {
			return
		}
		t.add(&e)
	}
}

func (t *Top) add(e *Event) {
	outcome, bin := outcomeOf(e.Rcode), -1
	if outcome != dropped {
		bin = binOf(e.Took)
	}
	t.all.add(outcome, bin)
	for _, table := range t.tables {
		key, ok := table.appendKey(t.key[:0], e)
		t.key = key
		if !ok {
			continue
		}
		c, fresh := table.counts.Add(key)
		if fresh {
			f := &c.Value
			f.bridge, f.port, f.network, f.id, f.upstream = e.Bridge, e.Port, e.Switch, e.Network, e.Upstream
			if table.kind == api.TopNames {
				f.name = slices.Clone(e.name())
			}
		}
		c.Value.add(outcome, bin)
	}
}

// bin is below 0 without a duration.
func (f *figures) add(outcome, bin int) {
	f.outcomes[outcome]++
	if bin >= 0 {
		f.took[bin]++
	}
}

// fill sets all but Queries and the key.
func (f *figures) fill(to *api.TopEntry, seconds float64) {
	to.NoError, to.NXDomain, to.ServFail = uint64(f.outcomes[noError]), uint64(f.outcomes[nxDomain]), uint64(f.outcomes[servFail])
	to.OtherRcodes, to.Resumed, to.Dropped = uint64(f.outcomes[otherRcode]), uint64(f.outcomes[resumed]), uint64(f.outcomes[dropped])
	to.MedianSeconds, to.P99Seconds = f.took.quantile(.5).Seconds(), f.took.quantile(.99).Seconds()
	if seconds > 0 {
		to.PerSecond = float64(to.Queries) / seconds
	}
}

// Snapshot returns the figures since the last one, and resets them.
func (t *Top) Snapshot(now time.Time) *api.Top {
	t.Drain()
	out := &api.Top{Time: now.UTC(), Seconds: now.Sub(t.begun).Seconds()}
	_, out.Missed = t.reader.missed()
	for _, n := range t.all.outcomes {
		out.All.Queries += uint64(n)
	}
	t.all.fill(&out.All, out.Seconds)
	t.all, t.begun = figures{}, now
	for _, table := range t.tables {
		rows := table.rows(t.limit, out.Seconds)
		switch table.kind {
		case api.TopGuests:
			out.Guests = rows
		case api.TopNames:
			out.Names = rows
		case api.TopNetworks:
			out.Networks = rows
		case api.TopUpstreams:
			out.Upstreams = rows
		}
		table.counts.Reset()
	}
	return out
}

func (t *table) rows(limit int, seconds float64) *api.TopTable {
	out := &api.TopTable{Entries: []api.TopEntry{}, Distinct: t.counts.Len(), MissingAtMost: t.counts.Missing()}
	out.Exact = out.MissingAtMost == 0
	for _, c := range t.counts.Top(limit) {
		entry := api.TopEntry{Queries: c.N, TooHigh: c.Over}
		t.describe(&c.Value, &entry)
		c.Value.fill(&entry, seconds)
		out.Entries = append(out.Entries, entry)
	}
	return out
}

// Close removes the reader.
func (t *Top) Close() { t.reader.Close() }
