// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/puntdns/puntdns/internal/control/api"
)

// publishAt publishes an event of each port, a second apart.
func publishAt(feed *Feed, ports ...string) {
	for i, port := range ports {
		feed.Publish(&Event{Port: port, Arrived: noon.Add(time.Duration(i) * time.Second)})
	}
}

// shownPorts returns the ports of lines, and the kinds of other lines.
func shownPorts(lines []any) string {
	var all []string
	for _, line := range lines {
		l := line.(*api.WatchLine)
		switch l.Event {
		case api.EventQuery:
			all = append(all, l.Port)
		case api.EventHistory:
			all = append(all, fmt.Sprint(l.Event, "@", l.Time.Sub(noon)))
		default:
			all = append(all, fmt.Sprint(l.Event, ":", l.Shown))
		}
	}
	return strings.Join(all, " ")
}

// last and since select past events, also by the filters. The lines go on, unless follow is false.
func TestPastLines(t *testing.T) {
	now := noon.Add(4 * time.Second)
	for _, tt := range []struct{ query, want, then string }{
		{"", "", "f"},
		{"last=2", "history@0s d e", "f"},
		{"last=1024", "history@0s a b c d e", "f"},
		{"since=2", "history@0s c d e", "f"},
		{"since=2&last=1", "history@0s e", "f"},
		{"last=2&port=a&port=b&port=c&port=f", "history@0s b c", "f"},
		{"last=3&follow=false", "history@0s c d e end:3", ""},
		{"last=3&count=2", "history@0s c d end:2", ""},
		{"last=3&count=4", "history@0s c d e", "f end:4"},
	} {
		var feed Feed
		feed.Remember(true)
		publishAt(&feed, "a", "b", "c", "d", "e")
		parameters, err := url.ParseQuery(tt.query)
		if err != nil {
			t.Fatal(err)
		}
		l, err := NewLines(&feed, parameters, now)
		if err != nil {
			t.Fatal(err)
		}
		lines, done := l.Next(now)
		if got := shownPorts(lines); got != tt.want || done != (tt.then == "") {
			t.Errorf("%s: %q, %v, want %q", tt.query, got, done, tt.want)
		}
		if done {
			continue
		}
		publishAt(&feed, "f")
		lines, _ = l.Next(now)
		if got := shownPorts(lines); got != tt.then {
			t.Errorf("%s: then %q, want %q", tt.query, got, tt.then)
		}
	}
	var empty Feed
	if lines, _ := newTestLines(t, &empty, "since=9").Next(noon); shownPorts(lines) != "history@0s" {
		t.Errorf("without a history: %q", shownPorts(lines))
	}
}

// An event that comes while the history is read is shown once.
func TestRepeatedEvent(t *testing.T) {
	var feed Feed
	feed.Remember(true)
	publishAt(&feed, "a")
	l := newTestLines(t, &feed, "")
	publishAt(&feed, "b")
	l.addPast(feed.past(), noon, 9, 0)
	publishAt(&feed, "c")
	first, _ := l.Next(noon)
	second, _ := l.Next(noon)
	if got := shownPorts(first) + " | " + shownPorts(second); got != "history@0s a b | c" {
		t.Errorf("%q", got)
	}
}

// The history has the newest events in their order, whichever goroutines write and read. Remember empties it.
func TestHistory(t *testing.T) {
	var feed Feed
	feed.Remember(true)
	feed.Remember(true)
	var done sync.WaitGroup
	for range 4 {
		done.Go(func() {
			for i := range 5000 {
				feed.Publish(&Event{})
				if i%500 == 0 && len(feed.past()) > api.WatchHistory {
					t.Error("the history is too long")
				}
			}
		})
	}
	done.Wait()
	for range api.WatchHistory {
		feed.Publish(&Event{Bridge: "last"})
	}
	all := feed.past()
	for i := range all {
		if all[i].Bridge != "last" || all[i].number != all[0].number+uint64(i) {
			t.Fatalf("event %d: %+v", i, all[i])
		}
	}
	if len(all) != api.WatchHistory || !feed.Wanted() {
		t.Errorf("%d events, wanted %v", len(all), feed.Wanted())
	}
	if feed.Remember(false); feed.past() != nil || feed.Wanted() {
		t.Error("the history is still there")
	}
}
