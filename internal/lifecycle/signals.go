// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"os"
	"os/signal"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/coredns/caddy"
)

// handleSignals handles signals as CoreDNS does, but ignores SIGUSR2 (a handover of sockets) and SIGHUP.
func (r *reloader) handleSignals() {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGHUP)
	reloads := make(chan struct{}, 1)
	go func() {
		for range reloads {
			r.reload()
		}
	}()
	go r.signalLoop(signals, reloads)
}

func (r *reloader) signalLoop(signals <-chan os.Signal, reloads chan<- struct{}) {
	ending := false
	for s := range signals {
		switch s {
		case syscall.SIGUSR1:
			select {
			case reloads <- struct{}{}:
			default: // a pending reload reads the same
			}
		case syscall.SIGQUIT:
			log.Info("SIGQUIT: Quitting process immediately")
			exit(0)
		case syscall.SIGTERM, os.Interrupt:
			name := "SIGTERM"
			if s == os.Interrupt {
				name = "SIGINT"
			}
			if ending && s == os.Interrupt {
				log.Info("SIGINT: Force quit")
				exit(2)
			}
			if !ending {
				ending = true
				log.Infof("%s: Shutting down servers then terminating", name)
				go func() { exit(r.shutDown(name)) }()
			}
		}
	}
}

func exit(code int) {
	for _, f := range caddy.OnProcessExit {
		f()
	}
	os.Exit(code)
}

// shutDown stops the instance, and returns CoreDNS's exit status: 4 for a failed callback, 3 for servers. It
// leaves r.mu locked: no reload begins.
func (r *reloader) shutDown(by string) (code int) {
	r.cancel()  // a trial ends now,
	r.mu.Lock() // and a reload that has passed it when it is done
	if r.current.Load() == nil {
		return 0 // nothing was started yet
	}
	r.awaitRestart(context.Background())
	instance := r.current.Load()
	r.ending.Store(true)
	caddy.EmitEvent(caddy.ShutdownEvent, by)
	for _, f := range lastCallbacks(instance, lastDnstap) {
		if err := f(); err != nil {
			log.Errorf("%s: shutdown: %v", by, err)
			code = 4
		}
	}
	if err := caddy.Stop(); err != nil {
		log.Errorf("%s: %v", by, err)
		code = 3
	}
	return code
}

// lastCallbacks returns the callbacks of an instance's end. First *ready* closes its address. The lameduck of
// *health* follows, during which the instance serves, then OnShutdown, which caddy would call first. *dnstap*
// ends last, with dnstapTimeout for its messages.
func lastCallbacks(i *caddy.Instance, dnstapTimeout time.Duration) []func() error {
	lameduck := 0
	for n, f := range i.OnFinalShutdown {
		if strings.Contains(runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name(), "/plugin/health.") {
			lameduck = n + 1
		}
	}
	queued, ended := dnstapCallbacks(dnstapTimeout)
	return slices.Concat(i.OnFinalShutdown[:lameduck], i.OnShutdown,
		[]func() error{queued}, i.OnFinalShutdown[lameduck:], []func() error{ended})
}
