// SPDX-License-Identifier: Apache-2.0

// Package vswitch watches the local Open_vSwitch database
// (ovs-vswitchd.conf.db(5)) for who this node is and for the interfaces of one
// bridge.
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
	// patience is what the server may take to connect, to send all rows, and to
	// answer an echo.
	patience = 5 * time.Second
	// probe is the time between echoes: libovsdb alone can miss a lost server.
	probe = 5 * time.Second

	minRetry = 200 * time.Millisecond
	maxRetry = 8 * time.Second
)

var (
	errSilent = fmt.Errorf("no answer within %v", patience)
	errLost   = errors.New("connection lost")
)

// Watch keeps onChange told of each View that differs from the last, and of the
// first, until ctx ends. Losing the database keeps the last View in force.
// onState is told on change only: nil when the database is connected and
// onChange has seen all of it, else why not. Both are called on the caller's
// goroutine and delay what comes next.
//
// e is a server to connect to, and cfg is needed if it has TLS. The error is
// that of ctx, or at once one that says what is wrong with e or cfg.
func Watch(ctx context.Context, e endpoint.Endpoint, cfg *tls.Config, bridge string, onChange func(View), onState func(error)) error {
	w := watcher{bridge: bridge, probe: probe, onChange: onChange, onState: onState}
	return w.watch(ctx, e, cfg)
}

func (w *watcher) watch(ctx context.Context, e endpoint.Endpoint, cfg *tls.Config) error {
	if err := w.configure(e, cfg); err != nil {
		return fmt.Errorf("%s database %s: %w", database, e, err)
	}
	backoff := endpoint.Backoff{Min: minRetry, Max: maxRetry}
	for {
		complete, err := w.session(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		w.tell(err)
		// One that serves and fails over and over is not tried at full speed.
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
	probe    time.Duration // the time between echoes
	onChange func(View)
	onState  func(error)

	endpoint endpoint.Endpoint
	model    model.ClientDBModel
	options  []client.Option

	// last is what onChange has seen, nil before the first.
	last *View
	// told is set once onState has been called, and state is the text of its
	// error, empty for nil.
	told  bool
	state string
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
		// libovsdb reads endpoints as URLs, and one without an absolute path as
		// its own default.
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

// session is one connection: libovsdb's own reconnecting keeps rows that were
// deleted meanwhile, and panics when it gives up. complete is since when a View
// was had from it, zero without one.
func (w *watcher) session(ctx context.Context) (complete time.Time, err error) {
	c, err := client.NewOVSDBClient(w.model, w.options...)
	if err != nil {
		return complete, err
	}
	defer c.Close()
	changed := make(chan struct{}, 1)
	rows, err := connect(ctx, c, changed)
	if err != nil {
		// libovsdb keeps the text of an error, and not the error.
		if strings.Contains(err.Error(), fs.ErrPermission.Error()) {
			err = w.endpoint.Explain(fs.ErrPermission)
		}
		return complete, err
	}
	echo := time.NewTicker(w.probe)
	defer echo.Stop()
	for {
		select {
		case <-ctx.Done():
			return complete, ctx.Err()
		case <-c.DisconnectNotify():
			return complete, errLost
		case <-changed:
			if t, ok := readWhole(rows); ok {
				w.see(t.view(w.bridge, SystemIDOverride()))
				if complete.IsZero() {
					complete = time.Now()
				}
			}
		case <-echo.C:
			if err := patiently(ctx, c.Echo); errors.Is(err, errSilent) {
				return complete, err
			} else if err != nil {
				// libovsdb calls it an incorrect response.
				return complete, errLost
			}
		}
	}
}

// connect returns when all rows are in the cache. changed is sent to then, and
// whenever rows changed after that.
func connect(ctx context.Context, c client.Client, changed chan<- struct{}) (rows *cache.TableCache, err error) {
	if err := patiently(ctx, c.Connect); err != nil {
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
	// libovsdb drops events when its queue is full, yet those in the queue come
	// after the rows of the dropped ones have changed.
	rows.AddEventHandler(&cache.EventHandlerFuncs{
		AddFunc:    func(string, model.Model) { signal() },
		UpdateFunc: func(string, model.Model, model.Model) { signal() },
		DeleteFunc: func(string, model.Model) { signal() },
	})
	err = patiently(ctx, func(ctx context.Context) error {
		// monitor_cond_since would help libovsdb's reconnecting only, and falls
		// back on old servers by a lock taken twice.
		_, err := c.Monitor(ctx, &client.Monitor{Method: ovsdb.ConditionalMonitorRPC, Tables: monitored})
		return err
	})
	// An empty database has no events.
	signal()
	return rows, err
}

// patiently bounds one exchange with the server.
func patiently(ctx context.Context, exchange func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := exchange(ctx)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return errSilent
	}
	return err
}

func (w *watcher) see(v View) {
	if w.last == nil || !w.last.equal(v) {
		w.last = &v
		w.onChange(v)
	}
	w.tell(nil)
}

// localPort is what the same failure over TCP has anew at each try.
var localPort = regexp.MustCompile(`:\d+->`)

// tell compares texts, since every failed try has a new error.
func (w *watcher) tell(err error) {
	text := ""
	if err != nil {
		text = localPort.ReplaceAllString(err.Error(), "->")
	}
	if w.told && text == w.state {
		return
	}
	w.told, w.state = true, text
	w.onState(err)
}
