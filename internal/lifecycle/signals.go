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

// handleSignals starts the goroutines that do at signals what CoreDNS does. Two are taken
// and ignored: SIGUSR2, at which CoreDNS hands its sockets to a new process, and SIGHUP.
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
			default: // one that has not begun yet reads the same
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

// exit ends the process.
func exit(code int) {
	for _, f := range caddy.OnProcessExit {
		f()
	}
	os.Exit(code)
}

// shutDown stops the instance that serves, and returns the status to exit with: 4 if a
// callback has failed and 3 if the servers have, as in CoreDNS. It leaves r.mu locked, so
// that no reload begins any more.
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

// lastCallbacks returns the callbacks of the end of an instance, in order. caddy would call all of OnShutdown
// first, but *health* sleeps in its OnFinalShutdown for its lameduck, during which the instance still serves.
// So OnShutdown comes after that. The callback of *ready* comes before it: its address is closed meanwhile.
// *dnstap* ends its writers in OnFinalShutdown, after the last query of a guest. Its collectors have
// dnstapTimeout to take the queued messages.
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
