// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"net/url"
	"time"

	"github.com/puntdns/puntdns/internal/control"
	"github.com/puntdns/puntdns/ofpunt/watch"
)

// Queries returns the answer to api.PathWatch: the queries of feed while they come. A reload ends no stream.
func Queries(feed *watch.Feed) control.StreamFunc {
	return func(ctx context.Context, parameters url.Values, send func(...any) error) error {
		return sendQueries(ctx, feed, parameters, send)
	}
}

func sendQueries(ctx context.Context, feed *watch.Feed, parameters url.Values, send func(...any) error) error {
	lines, err := watch.NewLines(feed, parameters, time.Now())
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

// Top returns the answer to api.PathTop: who has most of the queries of feed.
func Top(feed *watch.Feed) control.StreamFunc {
	return func(ctx context.Context, parameters url.Values, send func(...any) error) error {
		return sendTop(ctx, feed, parameters, send)
	}
}

func sendTop(ctx context.Context, feed *watch.Feed, parameters url.Values, send func(...any) error) error {
	top, err := watch.NewTop(feed, parameters, time.Now())
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
