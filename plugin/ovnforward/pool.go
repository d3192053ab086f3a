// SPDX-License-Identifier: Apache-2.0

package ovnforward

import (
	"net/netip"
	"runtime"
	"sync"
	"time"

	"github.com/coredns/coredns/plugin/pkg/proxy"
	"github.com/coredns/coredns/plugin/pkg/transport"
)

const (
	// maxFails is the failed health checks in a row before a server is down.
	maxFails = 1
	// checkInterval is for health checks, which run from a failed query to an answer.
	checkInterval = 500 * time.Millisecond
	// maxIdle is by server and protocol.
	maxIdle   = 16
	idleAfter = 5 * time.Minute
	// logInterval limits the log lines about one server's health.
	logInterval = time.Minute
)

// pool starts a server at its first query, and stops it when unnamed, idle, or to make room. It is safe for
// concurrent use.
type pool struct {
	max int
	now func() time.Time

	mu     sync.Mutex // guards the fields below, and fields of upstream as noted
	all    map[netip.AddrPort]*upstream
	closed bool
}

// upstream is usable until its last release.
type upstream struct {
	pool   *pool
	server netip.AddrPort
	proxy  *proxy.Proxy

	users int       // not yet released; guarded by pool.mu
	used  time.Time // last acquired; guarded by pool.mu
	gone  bool      // no longer in the pool; guarded by pool.mu
	// loggedDown was logged last, at loggedAt; guarded by pool.mu.
	loggedDown bool
	loggedAt   time.Time
}

func newPool(most int) *pool {
	return &pool{max: most, now: time.Now, all: make(map[netip.AddrPort]*upstream)}
}

// acquire returns a server to be released, nil if all are busy or the pool is closed. A full pool removes the
// least recently used one.
func (p *pool) acquire(server netip.AddrPort) *upstream {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	u := p.all[server]
	if u == nil {
		if len(p.all) >= p.max && !p.evict() {
			return nil
		}
		u = p.start(server)
	}
	u.users++
	u.used = p.now()
	return u
}

// evict reports false if all are busy. mu is held.
func (p *pool) evict() bool {
	var oldest *upstream
	for _, u := range p.all {
		if u.users == 0 && (oldest == nil || u.used.Before(oldest.used)) {
			oldest = u
		}
	}
	if oldest == nil {
		return false
	}
	evictions.Inc()
	p.remove(oldest)
	return true
}

// start adds a server. mu is held.
func (p *pool) start(server netip.AddrPort) *upstream {
	u := &upstream{pool: p, server: server, proxy: proxy.NewProxy(Name, server.String(), transport.DNS)}
	u.proxy.SetReadTimeout(readTimeout)
	u.proxy.SetMaxIdleConns(maxIdle)
	u.proxy.Start(checkInterval)
	p.all[server] = u
	return u
}

// remove stops a server after its last release. mu is held.
func (p *pool) remove(u *upstream) {
	delete(p.all, u.server)
	u.gone = true
	if u.users == 0 {
		u.stop()
	}
}

func (p *pool) retain(named map[netip.AddrPort]struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for server, u := range p.all {
		if _, ok := named[server]; !ok || u.users == 0 && p.now().Sub(u.used) > idleAfter {
			p.remove(u)
		}
	}
}

func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, u := range p.all {
		p.remove(u)
	}
}

func (p *pool) health() (up, down int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, u := range p.all {
		if u.proxy.Down(maxFails) {
			down++
		} else {
			up++
		}
	}
	return up, down
}

func (u *upstream) release() {
	u.pool.mu.Lock()
	defer u.pool.mu.Unlock()
	if u.users--; u.users == 0 && u.gone {
		u.stop()
	}
}

// stop removes the finalizer by which package proxy would close again.
func (u *upstream) stop() {
	runtime.SetFinalizer(u.proxy, nil)
	u.proxy.Stop()
	u.proxy.GetTransport().Stop()
	forgetServer(u.server)
}

// failed starts health checks, until the server answers.
func (u *upstream) failed() { u.proxy.Healthcheck() }

// isDown also logs changes.
func (u *upstream) isDown() bool {
	down := u.proxy.Down(maxFails)
	p := u.pool
	p.mu.Lock()
	now := p.now()
	changed := down != u.loggedDown && now.Sub(u.loggedAt) >= logInterval
	if changed {
		u.loggedDown, u.loggedAt = down, now
	}
	p.mu.Unlock()
	switch {
	case !changed:
	case down:
		log.Warningf("the server %s does not answer: it is asked no more until it does, unless the others of a zone do not either", u.server)
	default:
		log.Infof("the server %s answers again", u.server)
	}
	return down
}
