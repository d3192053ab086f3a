// SPDX-License-Identifier: Apache-2.0

// Package vswitch watches the local Open_vSwitch database (ovs-vswitchd.conf.db(5)) for this chassis and the
// interfaces of one bridge.
//
//	ovsdb-server ──► libovsdb: client, cache of rows
//	                   │ changed
//	                   ▼
//	                 session ── readRows ── view ──► onChange, if the View differs
//	                   │ an error ends it
//	                   ▼
//	                 onState, then the next session, after a backoff
//
// Watch works on its caller's goroutine. The goroutines of libovsdb only fill the cache and the channel
// changed. The package has no locks.
package vswitch

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/ovn-kubernetes/libovsdb/cache"
	"github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/puntdns/puntdns/internal/endpoint"
)

const (
	// exchangeTimeout is for connecting, all rows, or a probe.
	exchangeTimeout = 5 * time.Second
	// probeInterval is the time between probes: libovsdb alone can miss a lost server.
	probeInterval = 5 * time.Second

	// ovs-vswitchd resumes 1 to 8 s after the return of its ovsdb-server. puntdns must reconnect first.
	minRetry = 200 * time.Millisecond
	maxRetry = time.Second
)

var (
	errSilent = fmt.Errorf("no answer within %v", exchangeTimeout)
	errLost   = errors.New("connection lost")
)

// Watch calls onChange with each new View until ctx ends. A View stays valid while the database is away.
// onState gets nil once onChange has a View of the connected database, else the reason. Both run on the
// caller's goroutine.
//
// e is a server, cfg its TLS. Watch returns the error of ctx, or at once an error about e or cfg.
func Watch(ctx context.Context, e endpoint.Endpoint, cfg *tls.Config, bridge string, onChange func(View), onState func(error)) error {
	w := watcher{bridge: bridge, probe: probeInterval, onChange: onChange, onState: onState}
	return w.watch(ctx, e, cfg)
}

func newBackoff() endpoint.Backoff { return endpoint.Backoff{Min: minRetry, Max: maxRetry} }

func (w *watcher) watch(ctx context.Context, e endpoint.Endpoint, cfg *tls.Config) error {
	if err := w.configure(e, cfg); err != nil {
		return fmt.Errorf("%s database %s: %w", database, e, err)
	}
	backoff := newBackoff()
	for {
		complete, err := w.session(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		w.report(err)
		// The backoff grows for a server whose sessions end at once.
		if !complete.IsZero() && time.Since(complete) > maxRetry/4 {
			backoff.Reset()
		}
		if err := backoff.Wait(ctx); err != nil {
			return err
		}
	}
}

type watcher struct {
	bridge   string
	probe    time.Duration // the time between probes
	onChange func(View)
	onState  func(error)

	endpoint endpoint.Endpoint
	model    model.ClientDBModel
	options  []client.Option

	// last is the View of the last onChange, nil before the first.
	last     *View
	reported bool
	state    string
}

func (w *watcher) configure(e endpoint.Endpoint, cfg *tls.Config) (err error) {
	switch {
	case e.Listen:
		return errors.New("expected unix:PATH, tcp:HOST:PORT or ssl:HOST:PORT")
	case e.TLS && cfg == nil:
		return errors.New("TLS needs a certificate, a key and a CA certificate")
	}
	target := url.URL{Scheme: "tcp", Opaque: e.Address}
	switch {
	case e.Network == "unix":
		// libovsdb replaces a relative path by its default.
		path, err := filepath.Abs(e.Address)
		if err != nil {
			return err
		}
		target = url.URL{Scheme: "unix", Path: path}
	case e.TLS:
		target.Scheme = "ssl"
	}
	w.endpoint = e
	w.options = []client.Option{client.WithEndpoint(target.String()), client.WithTLSConfig(cfg)}
	w.model, err = dbModel()
	return err
}

// session does not use libovsdb's reconnect, which misses deleted rows, and panics at its last retry.
// complete is when the first View came, else zero.
func (w *watcher) session(ctx context.Context) (complete time.Time, err error) {
	c, err := client.NewOVSDBClient(w.model, w.options...)
	if err != nil {
		return complete, err
	}
	defer c.Close()
	changed := make(chan struct{}, 1)
	w.endpoint.EnsureAccess(ctx)
	rows, err := connect(ctx, c, changed)
	if err != nil {
		// libovsdb wraps only an error's text.
		if strings.Contains(err.Error(), fs.ErrPermission.Error()) {
			err = w.endpoint.ExplainPermission(fs.ErrPermission)
		}
		return complete, err
	}
	ticker := time.NewTicker(w.probe)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return complete, ctx.Err()
		case <-c.DisconnectNotify():
			return complete, errLost
		case <-changed:
			if t, ok := readConsistent(rows); ok {
				w.publish(t.view(w.bridge, systemIDOverride()))
				if complete.IsZero() {
					complete = time.Now()
				}
			}
		case <-ticker.C:
			if err := withTimeout(ctx, probe(c)); errors.Is(err, errSilent) {
				return complete, err
			} else if err != nil {
				return complete, errLost
			}
		}
	}
}

// connect returns once all rows are cached. It sends to changed then, and at each change.
func connect(ctx context.Context, c client.Client, changed chan<- struct{}) (rows *cache.TableCache, err error) {
	if err := withTimeout(ctx, c.Connect); err != nil {
		return nil, err
	}
	// Nil if the connection is lost again.
	if rows = c.Cache(); rows == nil {
		return nil, errLost
	}
	signal := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	// libovsdb drops events when its queue is full, but queued events come after dropped changes.
	rows.AddEventHandler(&cache.EventHandlerFuncs{
		AddFunc:    func(string, model.Model) { signal() },
		UpdateFunc: func(string, model.Model, model.Model) { signal() },
		DeleteFunc: func(string, model.Model) { signal() },
	})
	err = withTimeout(ctx, func(ctx context.Context) error {
		// monitor_cond_since is for libovsdb's reconnect, and its fallback deadlocks on old servers.
		_, err := c.Monitor(ctx, &client.Monitor{Method: ovsdb.ConditionalMonitorRPC, Tables: monitored})
		return err
	})
	// An empty database has no events.
	signal()
	return rows, err
}

// probe is a minimal exchange. libovsdb's Echo has a data race with the reply when its context ends.
func probe(c client.Client) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := c.Transact(ctx, ovsdb.Operation{Op: ovsdb.OperationSelect, Table: openVSwitchTable, Where: []ovsdb.Condition{}, Columns: []string{"_uuid"}})
		return err
	}
}

// withTimeout returns errSilent at the timeout.
func withTimeout(ctx context.Context, exchange func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	err := exchange(ctx)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return errSilent
	}
	return err
}

func (w *watcher) publish(v View) {
	if w.last == nil || !w.last.equal(v) {
		w.last = &v
		w.onChange(v)
	} else {
		w.last.update(v)
	}
	w.report(nil)
}

// localPort matches the part of a net error that differs with each connection.
var localPort = regexp.MustCompile(`:\d+->`)

// report compares texts, since each failed session has a new error.
func (w *watcher) report(err error) {
	text := ""
	if err != nil {
		text = localPort.ReplaceAllString(err.Error(), "->")
	}
	if w.reported && text == w.state {
		return
	}
	w.reported, w.state = true, text
	w.onState(err)
}
