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
	// maxFails is how many health checks may fail in a row: with the next one a server is down.
	maxFails = 1
	// checkInterval is that of health checks. A server is checked from when it does not answer
	// until it does.
	checkInterval = 500 * time.Millisecond
	// maxIdle bounds the connections of a server that are kept for further queries, by protocol.
	maxIdle = 16
	// idleAfter is how long a server stays that is not asked.
	idleAfter = 5 * time.Minute
	// logInterval is how often a change of the health of one server is logged.
	logInterval = time.Minute
)

// pool has the servers that are in use: a server is started when it is first asked, and stopped
// when nobody names it, when it has not been asked for a while, or for another one where there is
// no room. Its methods are safe for concurrent use.
type pool struct {
	max int
	now func() time.Time

	mu     sync.Mutex // guards what is below, and the fields of each upstream that name it
	all    map[netip.AddrPort]*upstream
	closed bool
}

// upstream is one server. It stays usable until the last user has released it.
type upstream struct {
	pool   *pool
	server netip.AddrPort
	proxy  *proxy.Proxy

	users int       // that have not released it; guarded by pool.mu
	used  time.Time // when it was last acquired; guarded by pool.mu
	gone  bool      // it is not in the pool any more; guarded by pool.mu
	// toldDown is what the log says last of it, and told when; guarded by pool.mu.
	toldDown bool
	told     time.Time
}

func newPool(most int) *pool {
	return &pool{max: most, now: time.Now, all: make(map[netip.AddrPort]*upstream)}
}

// acquire returns a server, which the caller has to release. It starts it if need be, in the place
// of the one that was not asked for longest if the pool is full. It is nil if the pool has no room,
// since all servers are being asked, or is closed.
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

// evict removes the server that was not asked for longest. It reports false if all are being
// asked. mu is held.
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

// remove takes a server out, and stops it once nobody asks it. mu is held.
func (p *pool) remove(u *upstream) {
	delete(p.all, u.server)
	u.gone = true
	if u.users == 0 {
		u.stop()
	}
}

// retain removes the servers that are not among those named, and those that have not been asked
// for idleAfter.
func (p *pool) retain(named map[netip.AddrPort]struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for server, u := range p.all {
		if _, ok := named[server]; !ok || u.users == 0 && p.now().Sub(u.used) > idleAfter {
			p.remove(u)
		}
	}
}

// close removes all servers, and has none started any more.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, u := range p.all {
		p.remove(u)
	}
}

// health returns how many servers are up and down.
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

// release undoes acquire.
func (u *upstream) release() {
	u.pool.mu.Lock()
	defer u.pool.mu.Unlock()
	if u.users--; u.users == 0 && u.gone {
		u.stop()
	}
}

// stop ends the goroutines of the server and closes its connections. Package proxy leaves that to
// a finalizer, which would close the connections once more.
func (u *upstream) stop() {
	runtime.SetFinalizer(u.proxy, nil)
	u.proxy.Stop()
	u.proxy.GetTransport().Stop()
	forgetServer(u.server)
}

// failed has the health of the server checked until it answers.
func (u *upstream) failed() { u.proxy.Healthcheck() }

// isDown reports whether the health checks of the server have failed, and logs a change of that.
func (u *upstream) isDown() bool {
	down := u.proxy.Down(maxFails)
	p := u.pool
	p.mu.Lock()
	now := p.now()
	tell := down != u.toldDown && now.Sub(u.told) >= logInterval
	if tell {
		u.toldDown, u.told = down, now
	}
	p.mu.Unlock()
	switch {
	case !tell:
	case down:
		log.Warningf("the server %s does not answer: it is asked no more until it does, unless the others of a zone do not either", u.server)
	default:
		log.Infof("the server %s answers again", u.server)
	}
	return down
}
