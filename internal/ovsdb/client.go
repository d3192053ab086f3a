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

// TableRequest names the rows and columns to read of one table.
type TableRequest struct {
	Table string
	// Columns must be in the server's schema. Optional columns that the schema lacks are absent from each
	// row. Row counts Columns first, then Optional. The type real is not supported.
	Columns, Optional []string
	// AllowMissing allows a schema without the table: the table then has no rows.
	AllowMissing bool
	// Where has the conditions until SetConditions: nil selects all rows, empty none.
	Where []Condition
}

// Config configures a Client. A duration of zero is the default.
type Config struct {
	// Database is the name in the schema, such as "OVN_Southbound".
	Database string
	// Endpoints are servers of one database. The client tries one after the other.
	Endpoints []endpoint.Endpoint
	// TLS is required if an endpoint has TLS.
	TLS      *tls.Config
	Tables   []TableRequest
	Receiver Receiver
	// DialTimeout bounds dialling, including the TLS handshake. Default 5 s.
	DialTimeout time.Duration
	// ProbeInterval is the silence after which the client sends an echo request (OVSDB's inactivity
	// probe). Until the initial contents are complete, a second such silence ends the connection.
	// Default 5 s.
	ProbeInterval time.Duration
	// ProbeTimeout is the silence after an echo request that ends a connection whose contents are
	// complete. A server that composes large contents for another client sends nothing meanwhile, and a
	// reconnect would add to its load. Default 30 s.
	ProbeTimeout time.Duration
	// ReplyTimeout bounds each write, and the time until the server begins its reply to a monitor
	// request or a change of conditions. The server answers no echo request before: about 6 s for
	// 100,000 rows. Default 60 s.
	ReplyTimeout time.Duration
	// Resume is the position of the rows that the Receiver already has, nil for none. Its Where
	// has the conditions until SetConditions.
	Resume *Position
	// Shuffle orders the endpoints at random once, so that many clients spread over a cluster.
	Shuffle bool
	// ReconnectJitter bounds a random delay before the reconnect after a connection in sync, so that
	// the clients of a server that ends do not return all at once. Default none.
	ReconnectJitter time.Duration
	// MinBackoff and MaxBackoff bound the delay after all endpoints have failed
	// (endpoint.Backoff). Defaults 200 ms and 8 s.
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

// Client runs one monitor on one database.
type Client struct {
	cfg Config

	// mu guards conn, its deadlines, gen, where and resyncs.
	mu sync.Mutex
	// conn is the current connection, nil without one. SetConditions and Resync end its read.
	conn net.Conn
	// gen and resyncs count the calls of SetConditions and Resync.
	gen, resyncs uint64
	// where has the current conditions by table.
	where map[string]clause

	// Only the goroutine of Run uses these three. See serverRow for clusterIndex.
	clusterIndex map[UUID]int64
	resume       resumePoint
	// behindSince is when a server that mayLack transactions was first avoided since the last sync, else zero.
	behindSince time.Time

	counts counts

	// server is the state of the last server, nil before there is one.
	server atomic.Pointer[ServerState]
}

// clause has the conditions of one table.
type clause struct {
	// json is the encoded "where" for a server that has all columns. err is an error of the encoding.
	json json.RawMessage
	err  error
	// optional has all conditions if one of them is on an optional column, otherwise nil.
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

// encode returns the "where" for a server's table, which may lack optional columns.
func (c clause) encode(t *table) (json.RawMessage, error) {
	if c.err != nil || c.optional == nil || len(t.missing) == 0 {
		return c.json, c.err
	}
	return encodeWhere(c.optional, t.missing...)
}

// New returns a Client. Run starts it.
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

// SetConditions replaces the conditions of the given tables. It ignores tables that are not in Config. It
// does not wait. Any goroutine may call it, a Receiver too, before Run and during outages.
// Receiver.Conditions gets gen when the rows reflect the conditions; calls that come faster than the
// server answers are merged.
//
// A value that can't be encoded ends the connection, with the error as State.Err.
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

// Resync delivers all rows again, as for a new connection: Receiver.Reset, the rows, Conditions, Commit. It
// is for a Receiver that starts to store more of the rows. It costs the server as much as a new
// connection. It does not wait, and any goroutine may call it. Without a connection, the next one
// delivers all rows.
func (c *Client) Resync() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resyncs++
	c.interrupt()
}

// interrupt ends a read that waits, see session.Read. c.mu is held.
func (c *Client) interrupt() {
	if c.conn != nil {
		// It fails only where the read fails too.
		_ = c.conn.SetReadDeadline(past)
	}
}

// sent identifies what a session has requested of the server.
type sent struct {
	// gen and resyncs are the values in Client.
	gen, resyncs uint64
}

// changed reports whether SetConditions or Resync was called since.
func (c *Client) changed(since sent) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return since != sent{c.gen, c.resyncs}
}

// conditions returns the current "where" of each table that the server has.
func (c *Client) conditions(tables map[string]*table) (now sent, where map[string]json.RawMessage, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now = sent{c.gen, c.resyncs}
	where = make(map[string]json.RawMessage, len(c.where))
	for name, cl := range c.where {
		if tables[name] == nil {
			continue // the schema lacks it
		}
		if where[name], err = cl.encode(tables[name]); err != nil {
			return now, nil, fmt.Errorf("table %q: %w", name, err)
		}
	}
	return now, where, nil
}

// past is a deadline that ends reads and writes at once.
var past = time.Unix(1, 0)

var errIncomplete = errors.New("ovsdb: a client needs a database, an endpoint, a table and a receiver")

// Run connects and delivers rows until ctx ends; after each failure it connects to the next endpoint. It
// returns ctx.Err, or at once an error if Config is incomplete. It may be called once.
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
		// The backoff grows for a server whose connections end soon after the sync. Time before the sync
		// does not count: contents that take longer cost the server more.
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

// connect runs one connection to its end. synced is the time of the first Commit, zero without one.
func (c *Client) connect(ctx context.Context, e endpoint.Endpoint, states *stateReporter) (synced time.Time, err error) {
	err = c.with(ctx, e, func(conn net.Conn) error {
		return newSession(ctx, c, conn, func() {
			synced = time.Now()
			states.synced(e.String())
		}).run()
	})
	return synced, err
}

// with runs f with a connection to a server, which ends with ctx. Its errors name the endpoint.
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

// stateReporter calls Receiver.State on changes only. It reports each endpoint's failure once.
type stateReporter struct {
	receiver Receiver
	// reported has the last error of each endpoint since the last sync.
	reported map[string]string
}

// varying matches the parts of an error that differ in each attempt: the local port, and the time in an
// error about a certificate.
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
