// SPDX-License-Identifier: Apache-2.0

package ovsdb

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"regexp"
	"slices"
	"sync"
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
	// MayLack is set for a table that the schema may lack, which then has no rows.
	MayLack bool
	// Where picks the rows to begin with: nil all of them, empty none.
	Where []Condition
}

// Config is what a Client works with. The zero value of a duration is its
// default.
type Config struct {
	// Database is the name in the schema, such as "OVN_Southbound".
	Database string
	// Endpoints are servers of one database, tried in turn.
	Endpoints []endpoint.Endpoint
	// TLS is needed if any endpoint has TLS.
	TLS      *tls.Config
	Tables   []TableRequest
	Receiver Receiver
	// LeaderOnly refuses followers of a clustered database. Without it a
	// follower serves while it is connected to its cluster, unless it is behind
	// what was read of that cluster before.
	LeaderOnly bool
	// Connect bounds dialling, TLS included. Default 5 s.
	Connect time.Duration
	// Probe is the silence after which the server is asked for an echo, and,
	// until the initial contents are in, the further silence after which it
	// counts as dead. Default 5 s.
	Probe time.Duration
	// Dead is the further silence after which a server counts as dead that has
	// delivered its contents. It is longer, since a server that composes large
	// contents for others answers nobody meanwhile, and a client that leaves then
	// only asks it for more of them. Default 30 s.
	Dead time.Duration
	// Initial is what the server may take to begin its answer to the monitor
	// request or a change of conditions, where it is too busy for echoes: about
	// 6 s for 100,000 rows. Default 60 s.
	Initial time.Duration
	// MinBackoff and MaxBackoff bound the delay after a round of all endpoints
	// has failed. Defaults 200 ms and 8 s.
	MinBackoff, MaxBackoff time.Duration
}

func (c *Config) setDefaults() {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&c.Connect, 5 * time.Second},
		{&c.Probe, 5 * time.Second},
		{&c.Dead, 30 * time.Second},
		{&c.Initial, time.Minute},
		{&c.MinBackoff, 200 * time.Millisecond},
		{&c.MaxBackoff, 8 * time.Second},
	} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
}

// Client keeps one monitor on one database.
type Client struct {
	cfg Config

	mu sync.Mutex
	// conn is there to be woken from its read; nil between connections.
	conn net.Conn
	// gen counts the calls of SetConditions; where holds their outcome, by table.
	gen   uint64
	where map[string]clause

	// seen is Run's, see serverRow.
	seen map[UUID]int64
}

// clause is the encoded "where" of one table for a server that has all columns, or
// why it could not be encoded.
type clause struct {
	json json.RawMessage
	err  error
	// optional has the conditions where some are on optional columns.
	optional []Condition
}

func newClause(where []Condition, optional []string) clause {
	text, err := encodeWhere(where)
	c := clause{json: text, err: err}
	if slices.ContainsFunc(where, func(w Condition) bool { return slices.Contains(optional, w.Column) }) {
		c.optional = slices.Clone(where)
	}
	return c
}

// on is the "where" for a server that has the table like that.
func (c clause) on(t *table) (json.RawMessage, error) {
	if c.err != nil || c.optional == nil || len(t.missing) == 0 {
		return c.json, c.err
	}
	return encodeWhere(c.optional, t.missing...)
}

// New makes a Client; Run starts it.
func New(cfg Config) *Client {
	cfg.setDefaults()
	c := &Client{cfg: cfg, where: make(map[string]clause, len(cfg.Tables)), seen: make(map[UUID]int64)}
	for _, t := range cfg.Tables {
		c.where[t.Table] = newClause(t.Where, t.Optional)
	}
	return c
}

// SetConditions replaces the conditions of the named tables; others keep theirs,
// and tables that are not in Config are ignored. It only takes a note, so it may
// be called from any goroutine, a Receiver included, before Run and during
// outages. The result is told to Receiver.Conditions when the rows reflect it;
// calls that come faster than the server answers are merged.
//
// A value that cannot be encoded shows as State.Err.
func (c *Client) SetConditions(tables map[string][]Condition) (gen uint64) {
	encoded := make(map[string]clause, len(tables))
	for _, t := range c.cfg.Tables {
		if where, ok := tables[t.Table]; ok {
			encoded[t.Table] = newClause(where, t.Optional)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.Copy(c.where, encoded)
	c.gen++
	if c.conn != nil {
		// Ends a read that waits, see session.Read. It fails only where the read
		// fails too.
		_ = c.conn.SetReadDeadline(past)
	}
	return c.gen
}

// changed tells whether SetConditions was called since gen.
func (c *Client) changed(gen uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gen != gen
}

// conditions gives what a server that has those tables should be asked for now.
func (c *Client) conditions(tables map[string]*table) (gen uint64, where map[string]json.RawMessage, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	where = make(map[string]json.RawMessage, len(c.where))
	for name, cl := range c.where {
		if tables[name] == nil {
			continue // the schema lacks it
		}
		if where[name], err = cl.on(tables[name]); err != nil {
			return 0, nil, fmt.Errorf("table %q: %w", name, err)
		}
	}
	return c.gen, where, nil
}

// past is a deadline that has been over for long.
var past = time.Unix(1, 0)

// errNothing is for a Client that could never do anything.
var errNothing = errors.New("ovsdb: a client needs a database, an endpoint, a table and a receiver")

// Run connects, delivers, and connects again, to the next endpoint after each
// failure, until ctx ends. Its error is that of ctx, or tells that Config lacks
// something. It is to be called once.
func (c *Client) Run(ctx context.Context) error {
	if c.cfg.Database == "" || len(c.cfg.Endpoints) == 0 || len(c.cfg.Tables) == 0 || c.cfg.Receiver == nil {
		return errNothing
	}
	told := reporter{receiver: c.cfg.Receiver, errs: make(map[string]string)}
	back := endpoint.Backoff{Min: c.cfg.MinBackoff, Max: c.cfg.MaxBackoff}
	for n := 0; ; n++ {
		if n > 0 && n%len(c.cfg.Endpoints) == 0 {
			if err := back.Wait(ctx); err != nil {
				return err
			}
		}
		e := c.cfg.Endpoints[n%len(c.cfg.Endpoints)]
		synced, err := c.connect(ctx, e, &told)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		told.down(e.String(), err)
		// One that syncs and fails over and over must not be tried at full speed, but
		// to be there for some seconds is enough. How long the contents took does not
		// count: the longer, the less the server bears to be asked again.
		if !synced.IsZero() && time.Since(synced) > c.cfg.MaxBackoff/4 {
			back.Reset()
		}
	}
}

// connect runs one connection to its end. synced is since when the receiver had the
// contents, zero if it never had.
func (c *Client) connect(ctx context.Context, e endpoint.Endpoint, told *reporter) (synced time.Time, err error) {
	dialCtx, cancel := context.WithTimeout(ctx, c.cfg.Connect)
	conn, err := e.Dial(dialCtx, c.cfg.TLS)
	cancel()
	if err != nil {
		if closed := ended(err); errors.Is(closed, errClosed) {
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
		told.up(e.String())
	})
	err = s.run()
	return synced, fmt.Errorf("%s: %w", e, ended(err))
}

// reporter passes on changes of state only. Several endpoints that are down in
// turn, each in its own way, are told once each.
type reporter struct {
	receiver Receiver
	// errs is what was told of each endpoint since the last sync.
	errs map[string]string
}

// changing is what one failure has anew at each try: our port, and in an error
// about a certificate the time.
var changing = regexp.MustCompile(`:\d+->|current time \S+`)

func (r *reporter) up(endpoint string) {
	clear(r.errs)
	r.receiver.State(State{Endpoint: endpoint, Synced: true})
}

func (r *reporter) down(endpoint string, err error) {
	text := changing.ReplaceAllString(err.Error(), "")
	if told, ok := r.errs[endpoint]; ok && told == text {
		return
	}
	r.errs[endpoint] = text
	r.receiver.State(State{Endpoint: endpoint, Err: err})
}
