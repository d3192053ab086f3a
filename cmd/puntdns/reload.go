// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coredns/caddy"
	clog "github.com/coredns/coredns/plugin/pkg/log"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/puntdns/puntdns/ofpunt"
	"github.com/puntdns/puntdns/plugin/ovnhosts"
)

var log = clog.NewWithPlugin("puntdns")

// reloader brings in a new Corefile, at SIGUSR1 and for the plugin *reload*. caddy
// tells the plugins of the old Corefile to stop before it reads the new one, and does
// not stop those of the new one that have started when a later one fails. So caddy gets
// a Corefile only after a trial that touches neither.
type reloader struct {
	conf *confFlag
	// ctx ends when the process is to end.
	ctx    context.Context
	cancel context.CancelFunc
	// current is the instance that serves, nil before the first does.
	current atomic.Pointer[caddy.Instance]
	// since is when current was started, in Unix seconds.
	since atomic.Int64
	// restarting is set while the plugin *reload* may be starting a Corefile that
	// has passed its trial, and ends that after restartTimeout.
	restarting atomic.Pointer[time.Timer]

	// mu is held during a trial, and during a whole reload by signal.
	mu sync.Mutex
	// tried is the last Corefile that was tried, and verdict what came of it.
	tried   fingerprint
	verdict error
	// taken ends what the last trial has opened.
	taken atomic.Pointer[func()]
}

func newReloader(conf *confFlag) *reloader {
	r := &reloader{conf: conf}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	// The plugin calls the loader at each of its ticks.
	caddy.SetDefaultCaddyfileLoader("default", caddy.LoaderFunc(r.load))
	caddy.RegisterEventHook("puntdns", r.started)
	return r
}

// started implements caddy.EventHook: an instance serves.
func (r *reloader) started(event caddy.EventName, info any) error {
	if event == caddy.InstanceStartupEvent {
		i := info.(*caddy.Instance)
		i.OnRestartFailed = append(i.OnRestartFailed, r.restarted)
		r.current.Store(i)
		r.since.Store(time.Now().Unix())
		return r.restarted()
	}
	return nil
}

// restarted takes note that a restart has ended, well or not. It has no errors.
func (r *reloader) restarted() error {
	if t := r.restarting.Swap(nil); t != nil {
		t.Stop()
	}
	r.letGo()
	return nil
}

// awaitRestart waits while the plugin *reload* may be starting a Corefile, and for the
// first start if there is no instance yet. It reports whether that was over before ctx
// ended.
func (r *reloader) awaitRestart(ctx context.Context) bool {
	for r.restarting.Load() != nil || r.current.Load() == nil {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// letGo ends what the last trial has opened, which the new instance now shares.
func (r *reloader) letGo() {
	if end := r.taken.Swap(nil); end != nil {
		(*end)()
	}
}

// load returns the Corefile for the start, and then for the plugin *reload*, which
// passes over those that come with an error without a word. A Corefile is tried, and
// refused, once.
func (r *reloader) load(string) (caddy.Input, error) {
	serving := r.current.Load()
	if serving == nil {
		return r.conf.read()
	}
	if *r.conf == stdinConf {
		return serving.Caddyfile(), nil // there is nothing more to read
	}
	in, err := r.conf.read()
	r.mu.Lock()
	defer r.mu.Unlock()
	print := fingerprintOf(in, err)
	if print != r.tried && err == nil && print == fingerprintOf(serving.Caddyfile(), nil) {
		r.tried, r.verdict = print, nil
	}
	if print == r.tried {
		return in, r.verdict
	}
	if err == nil {
		err = r.try(in)
	}
	r.tried, r.verdict = print, err
	if err != nil {
		r.refused("Corefile changed", err)
		return nil, err
	}
	// Should the plugin think better of it, the databases are not kept for good.
	r.restarting.Store(time.AfterFunc(restartTimeout, func() { _ = r.restarted() }))
	return in, nil
}

// restartTimeout is more than a start takes whose Corefile has passed its trial.
const restartTimeout = 30 * time.Second

// reload takes the Corefile as it is now, at a signal.
func (r *reloader) reload() {
	r.mu.Lock()
	defer r.mu.Unlock()
	const by = "SIGUSR1"
	// The first start may have read the Corefile before it was changed.
	if !r.awaitRestart(r.ctx) {
		return
	}
	log.Infof("%s: Reloading", by)
	if *r.conf == stdinConf {
		r.refused(by, errors.New("the Corefile has come by standard input, which can't be read again; expected -conf FILE"))
		return
	}
	in, err := r.conf.read()
	r.tried = fingerprintOf(in, err)
	if err == nil {
		err = r.try(in)
	}
	if r.verdict = err; err != nil {
		r.refused(by, err)
		return
	}
	caddy.EmitEvent(caddy.InstanceRestartEvent, nil)
	if err := r.restart(in); err != nil {
		failedReloads().Inc()
		log.Errorf("%s: the Corefile has passed its trial, but not its start; %s: %v", by, r.inForce(), err)
	}
}

// restart starts a Corefile that has passed its trial. One that fails is not to be
// started again by the plugin *reload*. r.mu is held.
func (r *reloader) restart(in caddy.Input) error {
	next, err := r.current.Load().Restart(in)
	if err == nil && next == nil {
		err = errors.New("a plugin has panicked") // which caddy has logged
	}
	r.verdict = err
	return err
}

// refused tells of a Corefile that did not pass its trial.
func (r *reloader) refused(by string, err error) {
	failedReloads().Inc()
	log.Errorf("%s: the reload is refused and changes nothing; %s: %v", by, r.inForce(), err)
}

// inForce says which Corefile a reload that has failed leaves in force.
func (r *reloader) inForce() string {
	return fmt.Sprintf("%s as taken at %s stays in force", *r.conf, time.Unix(r.since.Load(), 0).Format(time.DateTime))
}

// try tries everything of a Corefile: all that needs no peer in a process of its own,
// and then here the databases and switches, which are kept for the instance to come.
func (r *reloader) try(in caddy.Input) error {
	r.letGo()
	if err := tryApart(r.ctx, in); err != nil {
		return err
	}
	blocks, err := parseBlocks(in)
	if err != nil {
		return err
	}
	end, err := ofpunt.Try(r.ctx, in.Path(), blocks, ovnhosts.Databases)
	if err != nil {
		return err
	}
	r.taken.Store(&end)
	return nil
}

// fingerprint tells Corefiles apart, with what they import.
type fingerprint [sha256.Size]byte

func fingerprintOf(in caddy.Input, err error) fingerprint {
	if err != nil {
		return sha256.Sum256([]byte(err.Error()))
	}
	blocks, err := parseBlocks(in)
	if err != nil {
		return sha256.Sum256(fmt.Append(in.Body(), err))
	}
	text, err := json.Marshal(blocks)
	if err != nil {
		return sha256.Sum256(in.Body())
	}
	return sha256.Sum256(text)
}

// failedReloads is the counter of the plugin *reload*, which would count only what
// caddy has refused.
var failedReloads = sync.OnceValue(func() prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: "coredns", Subsystem: "reload", Name: "failed_total",
		Help: "Counter of the number of failed reload attempts.",
	})
	var there prometheus.AlreadyRegisteredError
	if err := prometheus.Register(c); errors.As(err, &there) {
		if c, ok := there.ExistingCollector.(prometheus.Counter); ok {
			return c
		}
	}
	return c
})
