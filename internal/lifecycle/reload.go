// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coredns/caddy"
	clog "github.com/coredns/coredns/plugin/pkg/log"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/puntdns/puntdns/internal/control"
	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/precheck"
	"github.com/puntdns/puntdns/ofpunt"
	"github.com/puntdns/puntdns/plugin/ovnhosts"
)

var log = clog.NewWithPlugin("puntdns")

// The life of a reload, from one Corefile to the next. caddy has the plugins of the old
// Corefile stop before it reads the new one, and does not stop those of the new one that
// have started when a later one fails. So caddy gets a Corefile only after a trial that
// touches neither.
//
//	SIGUSR1: reload                      plugin *reload*, at its ticks: load
//	   │                                    │
//	   └─────────────► try ◄────────────────┘
//	                    │ tryApart           another process sets up all plugins (-check)
//	                    │ ofpunt.Try         databases and switches that are new are opened
//	                    │                    here, and stay open until endTrial
//	      ┌─ refused ◄──┤
//	      ▼             │ passed
//	   nothing has      ▼
//	   changed       caddy.Instance.Restart
//	                    │ OnRestart of the old      *ready* closes its address
//	                    │ OnStartup of the new, in the order of directives:
//	                    │   ofpunt: instance.build  compiles the punt servers
//	                    │   ovnhosts, ready ...     databases are shared with the trial
//	                    │   ofpunt: instance.takeOver  last: its servers answer
//	      ┌─ failed ◄───┤
//	      ▼             ▼
//	 OnRestartFailed   OnShutdown of the old, whose errors are logged (tolerant)
//	 of the old:          ofpunt: instance.stop     drains, and closes what is not shared
//	   ofpunt: instance.rollBack: the old servers answer again
//	   ready: what the old one has closed is opened
//	   corefile.StartFailed: what the new one has opened is closed
//	   restartFailed: the status tells it
//	      │             │
//	      └──────┬──────┘
//	             ▼
//	   restartEnded: endTrial, as the instance that serves has opened all that it needs
//
// A first start has neither trial nor end; one that fails ends with corefile.StartFailed.
// shutDown (signals.go) ends the last instance, by the callbacks of OnShutdown and
// OnFinalShutdown.

// reloader has the state of reloads. Signals, the plugin *reload* and caddy's events call
// it on goroutines of their own.
type reloader struct {
	conf *precheck.Source
	// ctx ends when the process is to end.
	ctx    context.Context
	cancel context.CancelFunc
	// current is the instance that serves, nil until the first one does.
	current atomic.Pointer[caddy.Instance]
	// since is when current was started, in Unix seconds.
	since atomic.Int64
	// serves identifies what current was started with; nil until the first one is.
	serves atomic.Pointer[fingerprint]
	// restarting is set while the plugin *reload* may be starting a Corefile that
	// has passed its trial, and ends that after restartTimeout.
	restarting atomic.Pointer[time.Timer]
	// bySignal is set while restart starts a Corefile. It returns the error.
	bySignal atomic.Bool
	// ending is set when the last instance stops: no reload comes any more.
	ending atomic.Bool

	// mu is held during a trial, and during a whole reload by signal.
	mu sync.Mutex
	// tried is the last Corefile that was tried. triedErr is why it was refused, or why
	// its start failed; nil if neither.
	tried    fingerprint
	triedErr error
	// refused is the last reload since current was started that has failed, nil for none.
	refused atomic.Pointer[api.RefusedReload]
	// trial closes what the last trial has opened; nil without any.
	trial atomic.Pointer[func()]
}

func newReloader(conf *precheck.Source) *reloader {
	r := &reloader{conf: conf}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	// The plugin calls the loader at each of its ticks.
	caddy.SetDefaultCaddyfileLoader("default", caddy.LoaderFunc(r.load))
	caddy.RegisterEventHook("puntdns", r.started)
	control.Process.AddStatus(r.tellStatus)
	return r
}

// started implements caddy.EventHook: an instance serves.
func (r *reloader) started(event caddy.EventName, info any) error {
	if event == caddy.InstanceStartupEvent {
		i := info.(*caddy.Instance)
		i.OnRestartFailed = append(i.OnRestartFailed, r.restartFailed)
		for n, f := range i.OnShutdown {
			i.OnShutdown[n] = r.tolerant(f)
		}
		r.current.Store(i)
		r.since.Store(time.Now().Unix())
		// Now, since the text alone does not show a later change of an imported file.
		if in := i.Caddyfile(); in != nil {
			print := fingerprintOf(in, nil)
			r.serves.Store(&print)
		}
		r.refused.Store(nil)
		return r.restartEnded()
	}
	return nil
}

// tolerant returns a callback of OnShutdown that fails only at the end of the process. On a reload the next
// instance serves already, and caddy would take an error or a panic for a failed start: it would leave out
// the callbacks that follow, and call OnRestartFailed.
func (r *reloader) tolerant(f func() error) func() error {
	return func() (err error) {
		if r.ending.Load() {
			return f()
		}
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v", p)
			}
			if err != nil {
				log.Errorf("A plugin of the Corefile before has not shut down well; the new Corefile is in force: %v", err)
				err = nil
			}
		}()
		return f()
	}
}

// restartFailed is called when a restart has failed. The error of one by the plugin *reload* gets to that
// plugin alone, which logs and counts it. The error of this function is always nil.
func (r *reloader) restartFailed() error {
	if !r.bySignal.Load() {
		r.note(byPlugin, "it has passed its trial, but its start has failed; the log says why")
	}
	return r.restartEnded()
}

// restartEnded is called when a restart has succeeded or failed. Its error is always nil.
func (r *reloader) restartEnded() error {
	if t := r.restarting.Swap(nil); t != nil {
		t.Stop()
	}
	r.endTrial()
	return nil
}

// awaitRestart waits while the plugin *reload* may be starting a Corefile, and for the
// first start if there is no instance yet. It reports whether both were over before ctx
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

// endTrial closes what the last trial has opened. It stays open for an instance that shares it.
func (r *reloader) endTrial() {
	if release := r.trial.Swap(nil); release != nil {
		(*release)()
	}
}

// byPlugin is what has begun a reload by the plugin *reload*.
const byPlugin = "Corefile changed"

// load is caddy's loader: it returns the Corefile for the first start, and then for the plugin *reload*,
// which ignores a Corefile with an error. So load logs a refusal. A Corefile is tried, and refused, once.
func (r *reloader) load(string) (caddy.Input, error) {
	serving := r.current.Load()
	if serving == nil {
		return r.conf.Read()
	}
	if *r.conf == precheck.Stdin {
		return serving.Caddyfile(), nil // there is nothing more to read
	}
	in, err := r.conf.Read()
	r.mu.Lock()
	defer r.mu.Unlock()
	print := fingerprintOf(in, err)
	r.forgetIfServed(print)
	if print == r.tried {
		return in, r.triedErr
	}
	if err == nil {
		err = r.try(in)
	}
	r.tried, r.triedErr = print, err
	if err != nil {
		r.logRefusal(byPlugin, err)
		return nil, err
	}
	// Should the plugin not start it, the trial ends all the same.
	r.restarting.Store(time.AfterFunc(restartTimeout, func() { _ = r.restartEnded() }))
	return in, nil
}

// forgetIfServed forgets the Corefile that was tried last, and its refusal, if the file has changed since and
// is the Corefile in force. It keeps the refusal of a Corefile that has not changed, which was refused for
// another reason. print is of the file now. r.mu is held.
func (r *reloader) forgetIfServed(print fingerprint) {
	if serves := r.serves.Load(); print != r.tried && serves != nil && print == *serves {
		r.tried, r.triedErr = print, nil
		r.refused.Store(nil)
	}
}

// reviewRefusal checks whether the file of a refused reload is again the Corefile in force, since without the
// plugin *reload* nothing else does. It does not wait for a reload that is under way, which will set the
// status.
func (r *reloader) reviewRefusal() {
	if r.refused.Load() == nil || !r.mu.TryLock() {
		return
	}
	defer r.mu.Unlock()
	// Nothing else, such as a pipe, can be read twice.
	if info, err := os.Stat(r.conf.String()); err == nil && info.Mode().IsRegular() {
		r.forgetIfServed(fingerprintOf(r.conf.Read()))
	}
}

// restartTimeout is more than a start takes whose Corefile has passed its trial.
const restartTimeout = 30 * time.Second

// reload reads, tries and starts the Corefile as it is now, at a signal.
func (r *reloader) reload() {
	r.mu.Lock()
	defer r.mu.Unlock()
	const by = "SIGUSR1"
	// The first start may have read the Corefile before it was changed.
	if !r.awaitRestart(r.ctx) {
		return
	}
	log.Infof("%s: Reloading", by)
	if *r.conf == precheck.Stdin {
		r.logRefusal(by, errors.New("the Corefile has come by standard input, which can't be read again; expected -conf FILE"))
		return
	}
	in, err := r.conf.Read()
	r.tried = fingerprintOf(in, err)
	if err == nil {
		err = r.try(in)
	}
	if r.triedErr = err; err != nil {
		r.logRefusal(by, err)
		return
	}
	caddy.EmitEvent(caddy.InstanceRestartEvent, nil)
	if err := r.restart(in); err != nil {
		r.failed(by, err)
		log.Errorf("%s: the Corefile has passed its trial, but not its start; %s: %v", by, r.inForce(), err)
	}
}

// restart starts a Corefile that has passed its trial. The plugin *reload* does not start
// one again that has failed here, since triedErr says so. r.mu is held.
func (r *reloader) restart(in caddy.Input) error {
	r.bySignal.Store(true)
	defer r.bySignal.Store(false)
	next, err := r.current.Load().Restart(in)
	if err == nil && next == nil {
		err = errors.New("a plugin has panicked") // which caddy has logged
	}
	r.triedErr = err
	return err
}

// logRefusal logs and counts a Corefile that did not pass its trial.
func (r *reloader) logRefusal(by string, err error) {
	r.failed(by, err)
	log.Errorf("%s: the reload is refused and changes nothing; %s: %v", by, r.inForce(), err)
}

// failed counts a reload that changes nothing, and records it.
func (r *reloader) failed(by string, err error) {
	failedReloads().Inc()
	r.note(by, onOneLine(err.Error()))
}

// note records a reload that changes nothing, for the status. reason is one line.
func (r *reloader) note(by, reason string) {
	r.refused.Store(&api.RefusedReload{Time: time.Now().Round(0), By: by, Reason: reason})
}

// onOneLine returns a text of several lines, as the errors of several plugins are, or of the plugin
// *view*, as one.
func onOneLine(text string) string {
	var all []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	return strings.Join(all, "; ")
}

// inForce says which Corefile a reload that has failed leaves in force.
func (r *reloader) inForce() string {
	return fmt.Sprintf("%s as taken at %s stays in force", *r.conf, time.Unix(r.since.Load(), 0).Format(time.DateTime))
}

// try is the trial of a Corefile. It tries all that needs no peer in another process, then databases and
// switches in this process. They stay open for the next instance until endTrial. r.mu is held.
func (r *reloader) try(in caddy.Input) error {
	r.endTrial()
	precheck.Warn(in)
	if err := tryApart(r.ctx, in); err != nil {
		return err
	}
	blocks, err := precheck.ParseBlocks(in)
	if err != nil {
		return err
	}
	release, err := ofpunt.Try(r.ctx, in.Path(), blocks, ovnhosts.Databases)
	if err != nil {
		return err
	}
	r.trial.Store(&release)
	return nil
}

// fingerprint identifies the text of a Corefile and of its imports, or the error of reading it.
type fingerprint [sha256.Size]byte

func fingerprintOf(in caddy.Input, err error) fingerprint {
	if err != nil {
		return sha256.Sum256([]byte(err.Error()))
	}
	blocks, err := precheck.ParseBlocks(in)
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
	var registered prometheus.AlreadyRegisteredError
	if err := prometheus.Register(c); errors.As(err, &registered) {
		if c, ok := registered.ExistingCollector.(prometheus.Counter); ok {
			return c
		}
	}
	return c
})
