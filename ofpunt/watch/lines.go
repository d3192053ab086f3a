// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/origin"
)

const (
	// LinesTick is the time between two calls of [Lines.Next].
	LinesTick = 100 * time.Millisecond
	// linesRoom is how many events wait for a line: the events of 400 ms at the highest rate.
	linesRoom = 4096
	// missedInterval is the time between two lines about events that are not shown.
	missedInterval = time.Second
)

// Lines makes a line of each query. It is for one goroutine.
type Lines struct {
	reader *Reader
	// count is how many queries are shown, 0 for any number.
	count uint64
	// over and lost are the events that no line has counted yet. toldAt is when that was last checked.
	over, lost uint64
	toldAt     time.Time
	// total has the sums of all lines.
	total api.WatchLine
}

// NewLines has the parameters of api.PathWatch. The Lines have to be closed.
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
	return &Lines{reader: feed.listen(filter, linesRoom, newLimiter(rate, now)), count: uint64(count), toldAt: now}, nil
}

// parseNumber returns a parameter within bounds, otherwise if it is not given.
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

// Next returns the lines that are due at a time. It reports whether the last one is among them.
func (l *Lines) Next(now time.Time) (lines []any, done bool) {
	var e Event
	for range linesRoom { // what comes meanwhile waits for the next call
		if !l.reader.ring.take(&e) {
			break
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

// miss counts an event that is not shown.
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

// Close ends the listening.
func (l *Lines) Close() { l.reader.Close() }

// lineOf returns the line of a query.
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

// labelsOf returns the values of the labels that a block names, nil for none.
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
