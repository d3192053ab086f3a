// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"net/url"
	"time"

	"github.com/puntdns/puntdns/internal/control"
	"github.com/puntdns/puntdns/ofpunt/watch"
)

// Queries answers api.PathWatch with the queries of feed as they come, across reloads.
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

// Top answers api.PathTop with the most frequent queries of feed.
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
	drain, report := time.NewTicker(watch.TopTick), time.NewTicker(top.Interval)
	defer drain.Stop()
	defer report.Stop()
	for sent := 0; top.Count == 0 || sent < top.Count; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-drain.C:
			top.Drain()
		case <-report.C:
			if err := send(top.Snapshot(time.Now())); err != nil {
				return err
			}
			sent++
		}
	}
	return nil
}
