// SPDX-License-Identifier: Apache-2.0

// Package ready is a CoreDNS plugin that reports over HTTP whether this process can
// serve, and why not. It replaces CoreDNS's plugin of that name, with its syntax and its
// status codes: that one has no reasons, and answers 200 for a moment at the start, before it knows which plugins to
// ask.
//
//	GET /ready ─► monitor.answer ─► notReady ─► Readiness.Ready, Explainer.NotReady
//
// Each address has a goroutine that serves, and each request one. monitor.mu guards what
// they share; no plugin is asked with it held.
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

// Readiness is what a plugin implements that may not be ready, as in CoreDNS.
type Readiness interface {
	// Ready reports whether the plugin can serve.
	Ready() bool
}

// Explainer is a Readiness that has reasons.
type Explainer interface {
	// NotReady returns a reason for each thing that is not ready, none if all is. It
	// does not end in a full stop.
	NotReady() []string
}

// Timeouts of one request and of a shutdown, as in CoreDNS.
const (
	httpTimeout     = 5 * time.Second
	shutdownTimeout = 5 * time.Second
)

// monitor answers at the addresses that the server blocks of one Corefile name.
type monitor struct {
	addresses []string
	configs   []*dnsserver.Config
	// continuously is set when plugins are asked again that were ready once. As in
	// CoreDNS the last block decides for all.
	continuously bool

	// mu guards all below.
	mu sync.Mutex
	// checks are the plugins to ask, by name: one handler of each answers for all
	// blocks. It is set by start.
	checks map[string]Readiness
	// passed are those that were ready once.
	passed  map[string]bool
	servers []*http.Server
}

// start listens at all addresses. It is called when the plugins are set up, and again when
// a reload has failed, which has called stop before.
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

// stop closes all listeners, and drains requests for shutdownTimeout at most. Its error is
// always nil.
func (m *monitor) stop() error {
	m.mu.Lock()
	servers := m.servers
	m.servers = nil
	m.mu.Unlock()
	// The lock must not be held here: answers need it.
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	for _, s := range servers {
		if err := s.Shutdown(ctx); err != nil {
			log.Infof("Failed to stop the HTTP server: %v", err)
		}
	}
	return nil
}

// answer answers a request: 200 and OK, or 503, a line with the names of the plugins that are not ready, as in
// CoreDNS, and a line for each reason.
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
	_, _ = w.Write([]byte(text)) // it fails if the client has closed the connection
}

// notReady asks the plugins, and returns the plugins that are not ready, sorted, and their reasons.
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
