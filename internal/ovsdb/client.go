// SPDX-License-Identifier: Apache-2.0

package ovsdb

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/puntdns/puntdns/internal/endpoint"
)

type TableRequest struct {
	Table string
	// Columns must be in the server's schema; rows lack missing Optional columns. Row counts Columns first,
	// then Optional. The type real is not supported.
	Columns, Optional []string
	// AllowMissing allows a schema without the table.
	AllowMissing bool
	// Where has the conditions until SetConditions: nil selects all rows, empty none.
	Where []Condition
}

type Config struct {
	// Database is the name in the schema, such as "OVN_Southbound".
	Database string
	// Endpoints are servers of one database, tried in turn.
	Endpoints []endpoint.Endpoint
	TLS       *tls.Config
	Tables    []TableRequest
	Receiver  Receiver
	// DialTimeout includes the TLS handshake. Default 5 s.
	DialTimeout time.Duration
	// ProbeInterval is the silence before an echo request (OVSDB's inactivity probe). Before the initial
	// contents are complete, a second such silence ends the connection. Default 5 s.
	ProbeInterval time.Duration
	// ProbeTimeout is the silence after an echo request that ends a connection with complete contents. A
	// server that composes large contents for another client is silent, and a reconnect would add to its
	// load. Default 30 s.
	ProbeTimeout time.Duration
	// ReplyTimeout bounds each write, and the time until the server begins its reply to a monitor request or
	// a change of conditions. Until then the server answers no echo: about 6 s for 100,000 rows. Default 60
	// s.
	ReplyTimeout time.Duration
	// Resume is the position of the Receiver's rows, or nil. Its Where has the conditions until
	// SetConditions.
	Resume *Position
	// Shuffle orders the endpoints at random, so that clients spread over a cluster.
	Shuffle bool
	// ReconnectJitter bounds a random delay before the reconnect after a sync, as a server that ends
	// disconnects all its clients.
	ReconnectJitter time.Duration
	// MinBackoff and MaxBackoff bound the delay after all endpoints have failed. Defaults 200 ms and 8 s.
	MinBackoff, MaxBackoff time.Duration
}

func (c *Config) setDefaults() {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&c.DialTimeout, 5 * time.Second},
		{&c.ProbeInterval, 5 * time.Second},
		{&c.ProbeTimeout, 30 * time.Second},
		{&c.ReplyTimeout, time.Minute},
		{&c.MinBackoff, 200 * time.Millisecond},
		{&c.MaxBackoff, 8 * time.Second},
	} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
}

type Client struct {
	cfg Config

	// mu guards conn, its deadlines, gen, where and resyncs.
	mu sync.Mutex
	// SetConditions and Resync end the read of conn.
	conn         net.Conn
	gen, resyncs uint64
	where        map[string]clause

	// Only the goroutine of Run uses these three.
	clusterIndex map[UUID]int64
	resume       resumePoint
	// behindSince is when a server that mayLack transactions was first avoided since the last sync.
	behindSince time.Time

	counts counts

	server atomic.Pointer[ServerState]
}

type clause struct {
	json json.RawMessage
	err  error
	// optional has all conditions if one is on an optional column.
	optional []Condition
}

func newClause(where []Condition, t TableRequest) clause {
	text, err := encodeWhere(where)
	for _, w := range where {
		if w.Column != "_uuid" && !slices.Contains(t.Columns, w.Column) && !slices.Contains(t.Optional, w.Column) {
			err = fmt.Errorf("condition on column %q, which is not asked for", w.Column)
		}
	}
	c := clause{json: text, err: err}
	if slices.ContainsFunc(where, func(w Condition) bool { return slices.Contains(t.Optional, w.Column) }) {
		c.optional = slices.Clone(where)
	}
	return c
}

func (c clause) encode(t *table) (json.RawMessage, error) {
	if c.err != nil || c.optional == nil || len(t.missing) == 0 {
		return c.json, c.err
	}
	return encodeWhere(c.optional, t.missing...)
}

func New(cfg Config) *Client {
	cfg.setDefaults()
	c := &Client{cfg: cfg, where: make(map[string]clause, len(cfg.Tables)), clusterIndex: make(map[UUID]int64)}
	for _, t := range cfg.Tables {
		c.where[t.Table] = newClause(t.Where, t)
	}
	if r := cfg.Resume; r != nil {
		c.resume = resumePoint{position: *r, valid: true}
		c.clusterIndex[r.Cluster] = r.Index
		for table, where := range r.Where {
			c.where[table] = clause{json: where}
		}
	}
	if cfg.Shuffle {
		c.cfg.Endpoints = slices.Clone(cfg.Endpoints)
		rand.Shuffle(len(c.cfg.Endpoints), func(i, j int) {
			c.cfg.Endpoints[i], c.cfg.Endpoints[j] = c.cfg.Endpoints[j], c.cfg.Endpoints[i]
		})
	}
	return c
}

// SetConditions replaces the conditions of the given tables, and does not wait. Any goroutine may call it, a
// Receiver too. Receiver.Conditions gets gen when the rows reflect the conditions; calls faster than the
// server are merged. A value that can't be encoded ends the connection with State.Err.
func (c *Client) SetConditions(tables map[string][]Condition) (gen uint64) {
	encoded := make(map[string]clause, len(tables))
	for _, t := range c.cfg.Tables {
		if where, ok := tables[t.Table]; ok {
			encoded[t.Table] = newClause(where, t)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.Copy(c.where, encoded)
	c.gen++
	c.interrupt()
	return c.gen
}

// Resync delivers all rows again, for a Receiver that starts to store more of the rows. It costs the server
// as much as a new connection. Any goroutine may call it.
func (c *Client) Resync() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resyncs++
	c.interrupt()
}

// c.mu is held.
func (c *Client) interrupt() {
	if c.conn != nil {
		_ = c.conn.SetReadDeadline(past)
	}
}

// sent identifies what a session has requested of the server.
type sent struct {
	gen, resyncs uint64
}

func (c *Client) changed(since sent) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return since != sent{c.gen, c.resyncs}
}

func (c *Client) conditions(tables map[string]*table) (now sent, where map[string]json.RawMessage, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now = sent{c.gen, c.resyncs}
	where = make(map[string]json.RawMessage, len(c.where))
	for name, cl := range c.where {
		if tables[name] == nil {
			continue
		}
		if where[name], err = cl.encode(tables[name]); err != nil {
			return now, nil, fmt.Errorf("table %q: %w", name, err)
		}
	}
	return now, where, nil
}

var past = time.Unix(1, 0)

var errIncomplete = errors.New("ovsdb: a client needs a database, an endpoint, a table and a receiver")

// Run connects to each endpoint in turn and delivers rows until ctx ends. It returns ctx.Err, or an error if
// Config is incomplete. It may be called once.
func (c *Client) Run(ctx context.Context) error {
	if c.cfg.Database == "" || len(c.cfg.Endpoints) == 0 || len(c.cfg.Tables) == 0 || c.cfg.Receiver == nil {
		return errIncomplete
	}
	states := stateReporter{receiver: c.cfg.Receiver, reported: make(map[string]string)}
	backoff := endpoint.Backoff{Min: c.cfg.MinBackoff, Max: c.cfg.MaxBackoff}
	for n := 0; ; n++ {
		if n > 0 && n%len(c.cfg.Endpoints) == 0 {
			if err := backoff.Wait(ctx); err != nil {
				return err
			}
		}
		e := c.cfg.Endpoints[n%len(c.cfg.Endpoints)]
		synced, err := c.connect(ctx, e, &states)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		c.cfg.Receiver.Ended()
		states.failed(e.String(), err)
		// The backoff grows for a server whose connections end soon after the sync. Larger contents cost the
		// server more, so the time before the sync does not count.
		if !synced.IsZero() && time.Since(synced) > c.cfg.MaxBackoff/4 {
			backoff.Reset()
		}
		if !synced.IsZero() && c.cfg.ReconnectJitter > 0 {
			if err := endpoint.Sleep(ctx, rand.N(c.cfg.ReconnectJitter)); err != nil {
				return err
			}
		}
	}
}

func (c *Client) connect(ctx context.Context, e endpoint.Endpoint, states *stateReporter) (synced time.Time, err error) {
	err = c.with(ctx, e, func(conn net.Conn) error {
		return newSession(ctx, c, conn, func() {
			synced = time.Now()
			states.synced(e.String())
		}).run()
	})
	return synced, err
}

func (c *Client) with(ctx context.Context, e endpoint.Endpoint, f func(net.Conn) error) error {
	dialCtx, cancel := context.WithTimeout(ctx, c.cfg.DialTimeout)
	conn, err := e.Dial(dialCtx, c.cfg.TLS)
	cancel()
	if err != nil {
		if closed := closeError(err); errors.Is(closed, errClosed) {
			err = fmt.Errorf("%s: %w", e, closed)
		}
		return err
	}
	defer conn.Close()

	c.mu.Lock()
	c.conn = conn
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.conn = nil
		c.mu.Unlock()
	}()
	stop := context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.conn != nil {
			_ = c.conn.SetDeadline(past)
		}
	})
	defer stop()
	if err := f(conn); err != nil {
		return fmt.Errorf("%s: %w", e, closeError(err))
	}
	return nil
}

type stateReporter struct {
	receiver Receiver
	reported map[string]string
}

// varying matches what differs in each attempt: the local port, and the time in a certificate error.
var varying = regexp.MustCompile(`:\d+->|current time \S+`)

func (r *stateReporter) synced(endpoint string) {
	clear(r.reported)
	r.receiver.State(State{Endpoint: endpoint, Synced: true})
}

func (r *stateReporter) failed(endpoint string, err error) {
	text := varying.ReplaceAllString(err.Error(), "")
	if last, ok := r.reported[endpoint]; ok && last == text {
		return
	}
	r.reported[endpoint] = text
	r.receiver.State(State{Endpoint: endpoint, Err: err})
}
