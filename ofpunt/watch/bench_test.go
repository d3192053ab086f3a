// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// BenchmarkPublish is what a query costs whoever answers it.
func BenchmarkPublish(b *testing.B) {
	for _, tt := range []struct {
		name   string
		listen func(*Feed) *Reader
	}{
		{"unwatched", nil},
		{"history", func(f *Feed) *Reader { f.Remember(true); return nil }},
		{"no match", func(f *Feed) *Reader {
			filter, _ := ParseFilter(url.Values{"name": {"*.example.com"}})
			return f.listen(filter, 16, nil)
		}},
		{"over the rate", func(f *Feed) *Reader { return f.listen(&Filter{}, linesRoom, newLimiter(1, time.Now())) }},
		{"taken", func(f *Feed) *Reader { return f.listen(&Filter{}, topRoom, nil) }},
		{"no room", func(f *Feed) *Reader { return f.listen(&Filter{}, 1, nil) }},
	} {
		b.Run(tt.name, func(b *testing.B) {
			var feed Feed
			var r *Reader
			if tt.listen != nil {
				if r = tt.listen(&feed); r != nil {
					defer r.Close()
				}
			}
			e, taken := *someEvent(b), Event{}
			b.ReportAllocs()
			for b.Loop() {
				if feed.Wanted() {
					e.Took = time.Since(e.Arrived)
					feed.Publish(&e)
				}
				if tt.name == "taken" {
					r.ring.take(&taken)
				}
			}
		})
	}
}

// BenchmarkTop is what the reader of top makes of each query.
func BenchmarkTop(b *testing.B) {
	for _, names := range []int{100, 1000, 100_000} {
		b.Run(fmt.Sprint(names, " names"), func(b *testing.B) {
			var feed Feed
			top, err := NewTop(&feed, nil, noon)
			if err != nil {
				b.Fatal(err)
			}
			defer top.Close()
			events := make([]Event, names)
			for i := range events {
				events[i] = *someEvent(b)
				events[i].Question = question(b, fmt.Sprintf("vm%d.example.internal.", i), dns.TypeA)
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				top.add(&events[i%names])
				i++
			}
		})
	}
}

// BenchmarkLine is what a line of watch costs its reader.
func BenchmarkLine(b *testing.B) {
	e := someEvent(b)
	b.ReportAllocs()
	for b.Loop() {
		lineOf(e)
	}
}
