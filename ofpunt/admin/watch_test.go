// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/ofpunt/watch"
)

// A client that stops reading gets the number of lost queries, and the others.
func TestUnreadStream(t *testing.T) {
	const port, all = "unread", 20_000 // more than there is room for
	first, feed := time.Now(), new(watch.Feed)
	publish := func(n int) { // one a second stays below the rate
		feed.Publish(&watch.Event{Port: port, Arrived: first.Add(time.Duration(n) * time.Second)})
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	errTold := errors.New("all is told")
	shown, lost := uint64(0), uint64(0)
	err := Queries(feed)(ctx, url.Values{"port": {port}, "rate": {"10000"}}, func(lines ...any) error {
		if len(lines) == 0 { // the stream listens
			publish(0)
			return nil
		}
		for _, l := range lines {
			if l := l.(*api.WatchLine); l.Event == api.EventQuery {
				shown++
			} else {
				lost += l.Lost
			}
		}
		if shown == 1 { // an unread stream: send does not return
			for n := range all {
				publish(n + 1)
			}
		}
		if shown+lost > all {
			return errTold
		}
		return nil
	})
	if !errors.Is(err, errTold) || shown+lost != all+1 || lost == 0 || shown == 1 {
		t.Errorf("%v: %d shown and %d lost, want %d together, and some of each", err, shown, lost, all+1)
	}
	if feed.Wanted() {
		t.Error("nobody listens any more")
	}
}
