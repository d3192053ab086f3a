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

// caddy stops the old plugins before it reads the new Corefile. If a new plugin fails to start, caddy does
// not stop the plugins before it. So caddy gets a Corefile only after a trial, which touches neither
// instance.
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
//	 of the old:          ofpunt: instance.stop     drains, and closes unshared resources
//	   ofpunt: instance.rollBack: the old servers answer again
//	   ready: opens its address again
//	   corefile.StartFailed: closes the resources of the new instance
//	   restartFailed: the status shows the failure
//	      │             │
//	      └──────┬──────┘
//	             ▼
//	   restartEnded: endTrial, as the serving instance shares the resources that it needs
//
// The first start has no trial. If it fails, corefile.StartFailed closes its resources. shutDown (signals.go)
// ends the last instance by OnShutdown and OnFinalShutdown.

// reloader is called by signals, the plugin *reload* and caddy's events, on several goroutines.
type reloader struct {
	conf *precheck.Source
	// ctx ends at the shutdown.
	ctx    context.Context
	cancel context.CancelFunc
	// current is the serving instance, nil before the first.
	current atomic.Pointer[caddy.Instance]
	// since is the start of current, in Unix seconds.
	since atomic.Int64
	// serves is the Corefile of current.
	serves atomic.Pointer[fingerprint]
	// restarting: the plugin *reload* may be starting a tried Corefile. The timer resets it.
	restarting atomic.Pointer[time.Timer]
	bySignal   atomic.Bool
	ending     atomic.Bool

	// mu is held during a trial, and during a whole reload by signal.
	mu sync.Mutex
	// tried is the last tried Corefile, triedErr why it was refused or failed to start.
	tried    fingerprint
	triedErr error
	// refused is the last failed reload since the start of current, nil for none.
	refused atomic.Pointer[api.RefusedReload]
	trial   atomic.Pointer[func()]
}

func newReloader(conf *precheck.Source) *reloader {
	r := &reloader{conf: conf}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	// The plugin calls the loader at each of its ticks.
	caddy.SetDefaultCaddyfileLoader("default", caddy.LoaderFunc(r.load))
	caddy.RegisterEventHook("puntdns", r.started)
	control.Process.AddStatus(r.addStatus)
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
		// An imported file may change later.
		if in := i.Caddyfile(); in != nil {
			print := fingerprintOf(in, nil)
			r.serves.Store(&print)
		}
		r.refused.Store(nil)
		return r.restartEnded()
	}
	return nil
}

// tolerant makes a callback of OnShutdown fail only at the process's end. After a reload caddy would take an
// error or panic for a failed start, and call OnRestartFailed, though the next instance serves.
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

// restartFailed records the failure. Only the plugin *reload* gets the error of its restart, and logs and
// counts it.
func (r *reloader) restartFailed() error {
	if !r.bySignal.Load() {
		r.note(byPlugin, "it has passed its trial, but its start has failed; the log says why")
	}
	return r.restartEnded()
}

// restartEnded follows each restart.
func (r *reloader) restartEnded() error {
	if t := r.restarting.Swap(nil); t != nil {
		t.Stop()
	}
	r.endTrial()
	return nil
}

// awaitRestart waits for the first start, and while the plugin *reload* may start a Corefile. It is false if
// ctx ends first.
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

// endTrial closes what no instance shares.
func (r *reloader) endTrial() {
	if release := r.trial.Swap(nil); release != nil {
		(*release)()
	}
}

// byPlugin is RefusedReload.By for the plugin *reload*.
const byPlugin = "Corefile changed"

// load is caddy's loader, for the first start and each tick of the plugin *reload*, which ignores errors: so
// load logs refusals. A Corefile is tried once.
func (r *reloader) load(string) (caddy.Input, error) {
	serving := r.current.Load()
	if serving == nil {
		return r.conf.Read()
	}
	if *r.conf == precheck.Stdin {
		return serving.Caddyfile(), nil // standard input ends once
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
	// The plugin may not start it.
	r.restarting.Store(time.AfterFunc(restartTimeout, func() { _ = r.restartEnded() }))
	return in, nil
}

// forgetIfServed forgets a refusal if the file (print) has changed back to the Corefile in force. The refusal
// of an unchanged file has another reason, and stays. r.mu is held.
func (r *reloader) forgetIfServed(print fingerprint) {
	if serves := r.serves.Load(); print != r.tried && serves != nil && print == *serves {
		r.tried, r.triedErr = print, nil
		r.refused.Store(nil)
	}
}

// reviewRefusal calls forgetIfServed, as nothing else does without the plugin *reload*. It does not wait for
// a reload in progress.
func (r *reloader) reviewRefusal() {
	if r.refused.Load() == nil || !r.mu.TryLock() {
		return
	}
	defer r.mu.Unlock()
	// A pipe can't be read twice.
	if info, err := os.Stat(r.conf.String()); err == nil && info.Mode().IsRegular() {
		r.forgetIfServed(fingerprintOf(r.conf.Read()))
	}
}

// restartTimeout exceeds the start of a tried Corefile.
const restartTimeout = 30 * time.Second

func (r *reloader) reload() {
	r.mu.Lock()
	defer r.mu.Unlock()
	const by = "SIGUSR1"
	// The first start may have read the Corefile before its change.
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

// restart sets triedErr: the plugin *reload* does not repeat a failed start. r.mu is held.
func (r *reloader) restart(in caddy.Input) error {
	r.bySignal.Store(true)
	defer r.bySignal.Store(false)
	next, err := r.current.Load().Restart(in)
	if err == nil && next == nil {
		err = errors.New("a plugin has panicked") // logged by caddy
	}
	r.triedErr = err
	return err
}

func (r *reloader) logRefusal(by string, err error) {
	r.failed(by, err)
	log.Errorf("%s: the reload is refused and changes nothing; %s: %v", by, r.inForce(), err)
}

// failed counts and records a reload without an effect.
func (r *reloader) failed(by string, err error) {
	failedReloads().Inc()
	r.note(by, onOneLine(err.Error()))
}

// note takes a reason of one line.
func (r *reloader) note(by, reason string) {
	r.refused.Store(&api.RefusedReload{Time: time.Now().Round(0), By: by, Reason: reason})
}

func onOneLine(text string) string {
	var all []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	return strings.Join(all, "; ")
}

func (r *reloader) inForce() string {
	return fmt.Sprintf("%s as taken at %s stays in force", *r.conf, time.Unix(r.since.Load(), 0).Format(time.DateTime))
}

// try has another process set up the plugins, then opens databases and switches, which stay open until
// endTrial for the next instance. r.mu is held.
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

// fingerprint is of a Corefile with imports, or the error of reading it.
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

// failedReloads is the counter of the plugin *reload*, which counts only refusals by caddy.
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
