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

// TableRequest names the rows and columns that are wanted of one table.
type TableRequest struct {
	Table string
	// Columns must be in the server's schema; Optional ones are left out of the
	// request, and absent from every row, where the schema lacks them. Row
	// counts Columns first, then Optional. No column may be of type real.
	Columns, Optional []string
	// AllowMissing is set for a table that the schema may lack, which then has no rows.
	AllowMissing bool
	// Where has the conditions until SetConditions: nil is for all rows, empty for none.
	Where []Condition
}

// Config is what a Client works with. The zero value of a duration is its
// default.
type Config struct {
	// Database is the name in the schema, such as "OVN_Southbound".
	Database string
	// Endpoints are servers of one database, which are tried one after the other.
	Endpoints []endpoint.Endpoint
	// TLS is needed if any endpoint has TLS.
	TLS      *tls.Config
	Tables   []TableRequest
	Receiver Receiver
	// DialTimeout bounds dialling, the TLS handshake included. Default 5 s.
	DialTimeout time.Duration
	// ProbeInterval is the silence after which the server is sent an echo request, as by
	// OVSDB's inactivity probe, and, until the initial contents are complete, the further
	// silence after which the connection ends. Default 5 s.
	ProbeInterval time.Duration
	// ProbeTimeout is that further silence once the contents are complete. It is longer:
	// a server that composes large contents for others answers nobody meanwhile, and a
	// client that connects again only adds to its load. Default 30 s.
	ProbeTimeout time.Duration
	// ReplyTimeout bounds the time until the server begins its reply to a monitor request
	// or a change of conditions, during which it answers no echo requests: about 6 s for
	// 100,000 rows. It bounds each write, too. Default 60 s.
	ReplyTimeout time.Duration
	// Resume is the position of rows that the Receiver has from an earlier Client, nil for none.
	// Conditions are those of its Where up to the first SetConditions.
	Resume *Position
	// Shuffle has the endpoints tried in a random order, which stays for the life of the Client,
	// so that many clients spread over the servers of a cluster.
	Shuffle bool
	// Spread bounds a random delay before the first attempt after a connection that was in sync,
	// so that many clients of a server that has ended do not return at once. Default none.
	Spread time.Duration
	// MinBackoff and MaxBackoff bound the delay after all endpoints have failed, see
	// endpoint.Backoff. Defaults 200 ms and 8 s.
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

// Client has one monitor on one database.
type Client struct {
	cfg Config

	// mu guards conn, its deadlines, gen, where and rereads.
	mu sync.Mutex
	// conn is the present connection, nil without one. SetConditions ends its read.
	conn net.Conn
	// gen counts the calls of SetConditions. where has the present conditions by table.
	gen   uint64
	where map[string]clause
	// rereads counts the calls of Reread.
	rereads uint64

	// clusterIndex is serverRow.clusterIndex. Only the goroutine of Run uses it, and held.
	clusterIndex map[UUID]int64
	held         held
	// behindSince is when a server was first left since it may lack what was read, zero if none was
	// since the last sync. Only the goroutine of Run uses it.
	behindSince time.Time

	counts counts

	// server is what the last server has said of itself, nil before the first has.
	server atomic.Pointer[ServerState]
}

// clause is the encoded "where" of one table for a server that has all columns, or
// why it could not be encoded.
type clause struct {
	json json.RawMessage
	err  error
	// optional has all conditions if one of them is on an optional column, else none.
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

// encode returns the "where" for the table of a server, which may lack optional columns.
func (c clause) encode(t *table) (json.RawMessage, error) {
	if c.err != nil || c.optional == nil || len(t.missing) == 0 {
		return c.json, c.err
	}
	return encodeWhere(c.optional, t.missing...)
}

// New returns a Client that Run starts.
func New(cfg Config) *Client {
	cfg.setDefaults()
	c := &Client{cfg: cfg, where: make(map[string]clause, len(cfg.Tables)), clusterIndex: make(map[UUID]int64)}
	for _, t := range cfg.Tables {
		c.where[t.Table] = newClause(t.Where, t)
	}
	if r := cfg.Resume; r != nil {
		c.held = held{position: *r, whole: true}
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

// SetConditions replaces the conditions of the named tables, and leaves those of others.
// Tables that are not in Config are ignored. It does not wait, and may be called from any
// goroutine, a Receiver included, before Run and during outages. Receiver.Conditions gets
// gen when the rows reflect it; calls that come faster than the server answers are merged.
//
// A value that can't be encoded ends the connection with that error as State.Err.
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

// Reread has all rows delivered once more, as those of a new connection: Receiver.Reset comes,
// then the rows, Conditions and Commit. It is for a Receiver that has to store more of the rows
// than it did. It costs the server as much as a new connection. It does not wait, and may be
// called as SetConditions may; without a connection it does nothing, as the next one delivers all
// rows in any case.
func (c *Client) Reread() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rereads++
	c.interrupt()
}

// interrupt ends a read that waits, see session.Read. mu is held.
func (c *Client) interrupt() {
	if c.conn != nil {
		// It fails only where the read fails too.
		_ = c.conn.SetReadDeadline(past)
	}
}

// asked is what a session has asked the server for, by the calls that have changed it.
type asked struct {
	// gen is the number of SetConditions, and rereads that of Reread.
	gen, rereads uint64
}

// changed reports whether SetConditions or Reread was called since.
func (c *Client) changed(since asked) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return since != asked{c.gen, c.rereads}
}

// conditions returns what a server with those tables is to be asked for now.
func (c *Client) conditions(tables map[string]*table) (now asked, where map[string]json.RawMessage, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now = asked{c.gen, c.rereads}
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

// errIncomplete is the error for a Config that lacks something.
var errIncomplete = errors.New("ovsdb: a client needs a database, an endpoint, a table and a receiver")

// Run connects, delivers rows, and connects again, to the next endpoint after each
// failure, until ctx ends. Its error is that of ctx, or at once one that says what Config
// needs. It is to be called once.
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
		// The backoff grows for a server whose connections sync and end at once. A
		// quarter of the greatest delay in sync is enough to reset it. How long the
		// contents took does not count: the longer, the more they cost the server.
		if !synced.IsZero() && time.Since(synced) > c.cfg.MaxBackoff/4 {
			backoff.Reset()
		}
		if !synced.IsZero() && c.cfg.Spread > 0 {
			if err := endpoint.Sleep(ctx, rand.N(c.cfg.Spread)); err != nil {
				return err
			}
		}
	}
}

// connect runs one connection to its end. synced is when the receiver had all contents,
// zero if it never had.
func (c *Client) connect(ctx context.Context, e endpoint.Endpoint, states *stateReporter) (synced time.Time, err error) {
	dialCtx, cancel := context.WithTimeout(ctx, c.cfg.DialTimeout)
	conn, err := e.Dial(dialCtx, c.cfg.TLS)
	cancel()
	if err != nil {
		if closed := closeError(err); errors.Is(closed, errClosed) {
			err = fmt.Errorf("%s: %w", e, closed)
		}
		return synced, err
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

	s := newSession(ctx, c, conn, func() {
		synced = time.Now()
		states.synced(e.String())
	})
	err = s.run()
	return synced, fmt.Errorf("%s: %w", e, closeError(err))
}

// stateReporter calls Receiver.State with changes of state only. Where each of several
// endpoints fails in a way of its own, each failure is reported once.
type stateReporter struct {
	receiver Receiver
	// reported has the text of the last error of each endpoint since the last sync.
	reported map[string]string
}

// varying matches what differs in the text of one failure from try to try: our port, and
// in an error about a certificate the time.
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
