// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/origin"
)

const (
	// LinesTick is the interval of [Lines.Next].
	LinesTick = 100 * time.Millisecond
	// events of 400 ms at the highest rate
	linesRoom = 4096
	// between lines about missed events
	missedInterval = time.Second
)

// Lines makes a line of each query, on one goroutine.
type Lines struct {
	reader *Reader
	// queries to show, 0 for any number
	count uint64
	// missed events without a line, as of toldAt
	over, lost uint64
	toldAt     time.Time
	total      api.WatchLine
	// past are the history's lines, nil once sent. repeated has the numbers of their events, which the reader may
	// get again.
	past     []any
	repeated map[uint64]bool
	// the lines end with the history
	ends bool
}

// NewLines parses the parameters of api.PathWatch. Close the Lines.
func NewLines(feed *Feed, parameters url.Values, now time.Time) (*Lines, error) {
	filter, err := ParseFilter(parameters)
	if err != nil {
		return nil, err
	}
	rate, err := parseNumber(parameters, "rate", api.DefaultWatchRate, 1, api.MaxWatchRate)
	if err != nil {
		return nil, err
	}
	count, err := parseNumber(parameters, "count", 0, 0, 1<<31-1)
	if err != nil {
		return nil, err
	}
	last, err := parseNumber(parameters, "last", 0, 0, api.WatchHistory)
	if err != nil {
		return nil, err
	}
	since, err := parseNumber(parameters, "since", 0, 0, 1<<31-1)
	if err != nil {
		return nil, err
	}
	l := &Lines{count: uint64(count), toldAt: now, ends: parameters.Get("follow") == "false"}
	if l.ends && last == 0 && since == 0 {
		return nil, fmt.Errorf("follow false: expected last or since, too")
	}
	l.reader = feed.listen(filter, linesRoom, newLimiter(rate, now))
	if last > 0 || since > 0 {
		l.addPast(feed.past(), now, last, time.Duration(since)*time.Second)
	}
	return l, nil
}

// addPast adds the last events, or those within since; 0 is no limit.
func (l *Lines) addPast(all []Event, now time.Time, last int, since time.Duration) {
	about := &api.WatchLine{Event: api.EventHistory, Time: now.UTC()}
	if len(all) > 0 {
		about.Time = all[0].Arrived.UTC()
	}
	all = slices.DeleteFunc(all, func(e Event) bool {
		return !l.reader.filter.matches(&e) || since > 0 && now.Sub(e.Arrived) > since
	})
	if last > 0 && len(all) > last {
		all = all[len(all)-last:]
	}
	l.past, l.repeated = []any{about}, make(map[uint64]bool, len(all))
	for i := range all {
		l.past = append(l.past, lineOf(&all[i]))
		l.repeated[all[i].number] = true
	}
}

// done is set with the last line.
func (l *Lines) nextPast(now time.Time) (lines []any, done bool) {
	lines, l.past = l.past, nil
	queries := uint64(len(lines) - 1)
	if done = l.count > 0 && queries >= l.count; done {
		queries = l.count
		lines = lines[:1+queries]
	}
	l.total.Shown += queries
	if done = done || l.ends; done {
		lines = append(lines, l.end(now))
	}
	return lines, done
}

// otherwise is for an absent parameter.
func parseNumber(parameters url.Values, name string, otherwise, least, most int) (int, error) {
	word := parameters.Get(name)
	if word == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(word)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%s %.40q: expected a number from %d to %d", name, word, least, most)
	}
	return n, nil
}

// Next returns the due lines, and whether the last one is among them.
func (l *Lines) Next(now time.Time) (lines []any, done bool) {
	if l.past != nil {
		return l.nextPast(now)
	}
	var e Event
	for range linesRoom { // later events wait for the next call
		if !l.reader.ring.take(&e) {
			break
		}
		if l.repeated[e.number] {
			continue
		}
		lines = append(lines, lineOf(&e))
		l.total.Shown++
		if l.total.Shown == l.count {
			l.miss()
			return append(lines, l.end(now)), true
		}
	}
	if now.Sub(l.toldAt) >= missedInterval {
		l.toldAt = now
		if l.miss(); l.over+l.lost > 0 {
			lines = append(lines, &api.WatchLine{Event: api.EventMissed, Time: now.UTC(), OverRate: l.over, Lost: l.lost})
			l.over, l.lost = 0, 0
		}
	}
	return lines, false
}

func (l *Lines) miss() {
	over, lost := l.reader.missed()
	l.over, l.lost = l.over+over, l.lost+lost
	l.total.OverRate, l.total.Lost = l.total.OverRate+over, l.total.Lost+lost
}

func (l *Lines) end(now time.Time) *api.WatchLine {
	last := l.total
	last.Event, last.Time = api.EventEnd, now.UTC()
	return &last
}

// Close removes the reader.
func (l *Lines) Close() { l.reader.Close() }

func lineOf(e *Event) *api.WatchLine {
	line := &api.WatchLine{
		Event: api.EventQuery, Time: e.Arrived.UTC(), Seconds: e.Took.Seconds(), Bridge: e.Bridge, Port: e.Port, Switch: e.Switch,
		Transport: "udp", Name: nameText(e.name()), Rcode: rcodeText(e.Rcode), Result: e.Result, Reason: e.Reason,
	}
	if !e.Network.IsZero() {
		line.Network = e.Network.String()
	}
	if e.TCP {
		line.Transport = "tcp"
	}
	if e.Client.IsValid() {
		line.Client, line.Server = e.Client.String(), e.Server.String()
	}
	if t, ok := e.qtype(); ok {
		line.Type = dns.Type(t).String()
		if c := e.class(); c != dns.ClassINET {
			line.Class = dns.Class(c).String()
		}
	}
	if e.Upstream.IsValid() {
		line.Upstream = e.Upstream.String()
	}
	if b := e.Block; b != nil {
		line.Block = b.Name
		line.Labels = labelsOf(b, e.Attributes)
	}
	return line
}

// nil for none
func labelsOf(b *Block, attributes origin.Attributes) (labels map[string]string) {
	if attributes == nil {
		return nil
	}
	o := &origin.Origin{Attributes: attributes}
	for i := range b.Labels {
		if value := b.Labels[i].Value(o); value != "" {
			if labels == nil {
				labels = make(map[string]string, len(b.Labels))
			}
			labels[b.Labels[i].Name] = value
		}
	}
	return labels
}
