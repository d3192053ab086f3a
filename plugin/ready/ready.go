// SPDX-License-Identifier: Apache-2.0

// Package ready is a CoreDNS plugin that reports over HTTP whether this process can serve, and why not. It has the
// syntax and status codes of CoreDNS' ready, which gives no reasons, and answers 200 at the start until it knows its
// plugins.
//
//	GET /ready ─► monitor.answer ─► notReady ─► Readiness.Ready, Explainer.NotReady
//
// Each address and each request has a goroutine. monitor.mu guards what they share, and is not held while a plugin is
// asked.
package ready

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coredns/coredns/core/dnsserver"
	clog "github.com/coredns/coredns/plugin/pkg/log"
	"github.com/coredns/coredns/plugin/pkg/reuseport"
)

const name = "ready"

var log = clog.NewWithPlugin(name)

// Readiness is a plugin that may not be ready, as in CoreDNS.
type Readiness interface {
	// Ready reports whether the plugin can serve.
	Ready() bool
}

// Explainer is a Readiness with reasons.
type Explainer interface {
	// NotReady returns a reason, without a full stop, for each part that is not ready.
	NotReady() []string
}

// Timeouts as in CoreDNS.
const (
	httpTimeout     = 5 * time.Second
	shutdownTimeout = 5 * time.Second
)

type monitor struct {
	addresses []string
	configs   []*dnsserver.Config
	// continuously asks plugins again that were ready. As in CoreDNS, the last block decides.
	continuously bool

	// mu guards all below.
	mu sync.Mutex
	// checks has one handler per name, for all blocks. start sets it.
	checks map[string]Readiness
	// passed are the plugins that were ready once.
	passed  map[string]bool
	servers []*http.Server
}

// start also runs after stop if a reload fails.
func (m *monitor) start() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.checks, m.passed = map[string]Readiness{}, map[string]bool{}
	for _, c := range m.configs {
		for _, h := range c.Handlers() {
			if r, ok := h.(Readiness); ok {
				m.checks[h.Name()] = r
			}
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/ready", m.answer)
	var listeners []net.Listener
	for _, address := range m.addresses {
		// Two processes share an address during an upgrade.
		l, err := reuseport.Listen("tcp", address)
		if err != nil {
			for _, l := range listeners {
				l.Close()
			}
			return err
		}
		listeners = append(listeners, l)
	}
	for _, l := range listeners {
		s := &http.Server{Handler: mux, ReadTimeout: httpTimeout, WriteTimeout: httpTimeout, IdleTimeout: httpTimeout}
		m.servers = append(m.servers, s)
		go func() {
			if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				log.Errorf("%s: %v", l.Addr(), err)
			}
		}()
	}
	return nil
}

// stop returns no error.
func (m *monitor) stop() error {
	m.mu.Lock()
	servers := m.servers
	m.servers = nil
	m.mu.Unlock()
	// Answers need the lock.
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	for _, s := range servers {
		if err := s.Shutdown(ctx); err != nil {
			log.Infof("Failed to stop the HTTP server: %v", err)
		}
	}
	return nil
}

// answer answers 200, or 503 with a line of plugins, as in CoreDNS, and a line per reason.
func (m *monitor) answer(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	status, text := http.StatusOK, http.StatusText(http.StatusOK)
	if plugins, reasons := m.notReady(); len(plugins) > 0 {
		status, text = http.StatusServiceUnavailable, strings.Join(plugins, ",")
		if len(reasons) > 0 {
			text += "\n" + strings.Join(reasons, "\n") + "\n"
		}
	}
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text)) // fails if the client has closed the connection
}

func (m *monitor) notReady() (plugins, reasons []string) {
	m.mu.Lock()
	checks := maps.Clone(m.checks)
	if !m.continuously {
		maps.DeleteFunc(checks, func(plugin string, _ Readiness) bool { return m.passed[plugin] })
	}
	m.mu.Unlock()
	for _, plugin := range slices.Sorted(maps.Keys(checks)) {
		if checks[plugin].Ready() {
			m.mu.Lock()
			m.passed[plugin] = true
			m.mu.Unlock()
			continue
		}
		plugins = append(plugins, plugin)
		if e, ok := checks[plugin].(Explainer); ok {
			for _, reason := range e.NotReady() {
				reasons = append(reasons, plugin+": "+reason)
			}
		}
	}
	return plugins, reasons
}
