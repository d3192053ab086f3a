// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"context"
	"net/url"
	"time"

	"github.com/puntdns/puntdns/internal/control"
	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/ofpunt/watch"
)

func init() {
	control.Process.Stream(api.PathWatch, tellQueries)
	control.Process.Stream(api.PathTop, tellTop)
}

// watched is told of each query of all bridges. It outlives the Corefile: a reload ends no stream.
var watched watch.Feed

// tellQueries is the control.StreamFunc of api.PathWatch.
func tellQueries(ctx context.Context, parameters url.Values, send func(...any) error) error {
	lines, err := watch.NewLines(&watched, parameters, time.Now())
	if err != nil {
		return badRequest("%w", err)
	}
	defer lines.Close()
	if err := send(); err != nil {
		return err
	}
	t := time.NewTicker(watch.LinesTick)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
		}
		due, done := lines.Next(time.Now())
		if len(due) > 0 {
			if err := send(due...); err != nil {
				return err
			}
		}
		if done {
			return nil
		}
	}
}

// tellTop is the control.StreamFunc of api.PathTop.
func tellTop(ctx context.Context, parameters url.Values, send func(...any) error) error {
	top, err := watch.NewTop(&watched, parameters, time.Now())
	if err != nil {
		return badRequest("%w", err)
	}
	defer top.Close()
	if err := send(); err != nil {
		return err
	}
	drain, tell := time.NewTicker(watch.TopTick), time.NewTicker(top.Interval)
	defer drain.Stop()
	defer tell.Stop()
	for told := 0; top.Count == 0 || told < top.Count; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-drain.C:
			top.Drain()
		case <-tell.C:
			if err := send(top.Snapshot(time.Now())); err != nil {
				return err
			}
			told++
		}
	}
	return nil
}
