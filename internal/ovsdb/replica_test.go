// SPDX-License-Identifier: Apache-2.0

package ovsdb_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/puntdns/puntdns/internal/endpoint"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// thingSchema has a column of each shape.
const thingSchema = `{"name":"Things","version":"1.0.0","tables":{
 "Thing":{"isRoot":true,"columns":{
  "name":{"type":"string"},
  "num":{"type":"integer"},
  "flag":{"type":"boolean"},
  "opt":{"type":{"key":"string","min":0,"max":1}},
  "optint":{"type":{"key":{"type":"integer","minInteger":-9},"min":0,"max":1}},
  "names":{"type":{"key":"string","min":0,"max":"unlimited"}},
  "two":{"type":{"key":"string","min":0,"max":2}},
  "map":{"type":{"key":"string","value":"string","min":0,"max":"unlimited"}},
  "onemap":{"type":{"key":"string","value":"string","min":0,"max":1}},
  "ref":{"type":{"key":{"type":"uuid","refTable":"Thing","refType":"weak"},"min":0,"max":1}},
  "refs":{"type":{"key":{"type":"uuid","refTable":"Thing","refType":"weak"},"min":0,"max":"unlimited"}},
  "ratio":{"type":"real"}}},
 "Other":{"isRoot":true,"columns":{"name":{"type":"string"}}}}}`

// The columns of thingTable.
const (
	cName = iota
	cNum
	cFlag
	cOpt
	cOptInt
	cNames
	cTwo
	cMap
	cOneMap
	cRef
	cRefs
	cAbsent
)

var (
	thingTable = ovsdb.TableRequest{
		Table:    "Thing",
		Columns:  []string{"name", "num", "flag", "opt", "optint", "names", "two", "map", "onemap", "ref", "refs"},
		Optional: []string{"absent"},
	}
	otherTable = ovsdb.TableRequest{Table: "Other", Columns: []string{"name"}}
)

// thing is a row of Thing; nil stands for an empty optional.
type thing struct {
	Name       string
	Num        int64
	Flag       bool
	Opt        *string
	OptInt     *int64
	Names, Two []string
	Map, One   map[string]string
	Ref        ovsdb.UUID
	Refs       []ovsdb.UUID
}

// rowMap returns a map of strings to strings.
func rowMap(r *ovsdb.Row, col int) map[string]string {
	m := make(map[string]string, r.Len(col))
	for i := range r.Len(col) {
		k, v := r.PairAt(col, i)
		m[string(k)] = string(v)
	}
	return m
}

// patchMap applies an update to a map of strings: old itself if the column is not in the
// update, old modified in place if it is a difference, else a new map.
func patchMap(r *ovsdb.Row, col int, old map[string]string) map[string]string {
	switch {
	case !r.Has(col):
		return old
	case !r.Diff(col):
		return rowMap(r, col)
	case old == nil:
		old = make(map[string]string, r.Len(col))
	}
	for i := range r.Len(col) {
		k, v := r.PairAt(col, i)
		if have, ok := old[string(k)]; ok && have == string(v) {
			delete(old, string(k))
		} else {
			old[string(k)] = string(v)
		}
	}
	return old
}

// patch applies an update to a thing, and does not modify what older copies share.
func (th thing) patch(r *ovsdb.Row) thing {
	if r.Has(cName) {
		th.Name = r.String(cName)
	}
	if r.Has(cNum) {
		th.Num = r.Int(cNum)
	}
	if r.Has(cFlag) {
		th.Flag = r.Bool(cFlag)
	}
	if r.Has(cOpt) {
		th.Opt = nil
		if r.Len(cOpt) > 0 {
			s := r.String(cOpt)
			th.Opt = &s
		}
	}
	if r.Has(cOptInt) {
		th.OptInt = nil
		if r.Len(cOptInt) > 0 {
			n := r.Int(cOptInt)
			th.OptInt = &n
		}
	}
	th.Names = r.PatchStrings(cNames, th.Names)
	th.Two = r.PatchStrings(cTwo, th.Two)
	th.Map = patchMap(r, cMap, maps.Clone(th.Map))
	th.One = patchMap(r, cOneMap, maps.Clone(th.One))
	if r.Has(cRef) {
		th.Ref = r.UUID(cRef)
	}
	th.Refs = r.PatchUUIDs(cRefs, th.Refs)
	return th
}

// replica is the Receiver of the tests.
type replica struct {
	mu sync.Mutex
	// work takes the rows in; things and others are what was committed.
	work     tables
	things   map[ovsdb.UUID]thing
	others   map[ovsdb.UUID]string
	state    ovsdb.State
	nextGen  uint64 // becomes gen with the next Commit
	gen      uint64
	events   []string
	changed  chan struct{}
	onRow    func(id ovsdb.UUID) error
	onCommit func()
	loose    string // what no client should tell
}

type tables struct {
	things map[ovsdb.UUID]thing
	others map[ovsdb.UUID]string
}

func newReplica() *replica { return &replica{changed: make(chan struct{})} }

func (r *replica) note(format string, args ...any) {
	r.events = append(r.events, fmt.Sprintf(format, args...))
}

func (r *replica) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note("reset")
	r.work = tables{map[ovsdb.UUID]thing{}, map[ovsdb.UUID]string{}}
}

func (r *replica) Row(table string, id ovsdb.UUID, op ovsdb.Op, row *ovsdb.Row) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.onRow != nil {
		if err := r.onRow(id); err != nil {
			return err
		}
	}
	switch table {
	case "Other":
		r.note("%s other", op)
		if op == ovsdb.Delete {
			delete(r.work.others, id)
		} else {
			r.work.others[id] = row.String(0)
		}
		return nil
	case "Thing":
	default:
		return errors.New("no such table")
	}
	old, known := r.work.things[id]
	if known == (op == ovsdb.Insert) {
		r.loose = fmt.Sprintf("%s of %s, known: %v", op, id, known)
	}
	if row.Has(cAbsent) || row.Len(cAbsent) != 0 || row.String(99) != "" || row.Has(-1) {
		r.loose = "a column that is not there"
	}
	if op == ovsdb.Delete {
		r.note("delete %s", old.Name)
		delete(r.work.things, id)
		return nil
	}
	th := old.patch(row)
	r.note("%s %s", op, th.Name)
	r.work.things[id] = th
	return nil
}

func (r *replica) Conditions(gen uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note("conditions %d", gen)
	r.nextGen = gen
}

func (r *replica) Commit() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note("commit")
	r.gen = r.nextGen
	r.things, r.others = maps.Clone(r.work.things), maps.Clone(r.work.others)
	if r.onCommit != nil {
		r.onCommit()
	}
	r.wakeLocked()
}

func (r *replica) Ended() {}

func (r *replica) State(s ovsdb.State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.Synced == (s.Err != nil) || s.Endpoint == "" {
		r.loose = fmt.Sprintf("state %+v", s)
	}
	if s.Synced {
		r.note("synced")
	} else {
		r.note("down %v", s.Err)
	}
	r.state = s
	r.wakeLocked()
}

func (r *replica) wakeLocked() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// wait returns when ok holds after a Commit or a change of state.
func (r *replica) wait(t testing.TB, what string, ok func() bool) {
	t.Helper()
	timeout := time.NewTimer(30 * time.Second)
	defer timeout.Stop()
	for {
		r.mu.Lock()
		done, changed, loose := ok(), r.changed, r.loose
		r.mu.Unlock()
		if loose != "" {
			t.Fatal(loose)
		}
		if done {
			return
		}
		select {
		case <-changed:
		case <-timeout.C:
			r.mu.Lock()
			defer r.mu.Unlock()
			t.Fatalf("waited in vain for: %s\nthings: %+v\nevents: %s", what, r.things, strings.Join(r.events, "; "))
		}
	}
}

func (r *replica) waitSynced(t testing.TB) {
	t.Helper()
	r.wait(t, "sync", func() bool { return r.state.Synced })
}

func (r *replica) waitGen(t testing.TB, gen uint64) {
	t.Helper()
	r.wait(t, fmt.Sprintf("conditions %d", gen), func() bool { return r.gen == gen })
}

// waitDown waits for an error with each of the texts.
func (r *replica) waitDown(t testing.TB, texts ...string) {
	t.Helper()
	r.wait(t, fmt.Sprintf("an error with %q", texts), func() bool {
		if r.state.Err == nil {
			return false
		}
		for _, text := range texts {
			if !strings.Contains(r.state.Err.Error(), text) {
				return false
			}
		}
		return true
	})
}

// waitEvent waits for an event with each of the texts.
func (r *replica) waitEvent(t testing.TB, texts ...string) {
	t.Helper()
	r.wait(t, fmt.Sprintf("an event with %q", texts), func() bool {
		return slices.ContainsFunc(r.events, func(event string) bool {
			return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(event, text) })
		})
	})
}

// names are the names of the committed things.
func (r *replica) names() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for _, th := range r.things {
		all = append(all, th.Name)
	}
	slices.Sort(all)
	return all
}

// takeEvents gives the events since the last time.
func (r *replica) takeEvents() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.events
	r.events = nil
	return all
}

// start runs a client until the end of the test.
func start(t testing.TB, r *replica, change func(*ovsdb.Config), endpoints ...string) *ovsdb.Client {
	t.Helper()
	all, err := endpoint.ParseActive(endpoints)
	if err != nil {
		t.Fatal(err)
	}
	cfg := ovsdb.Config{
		Database:   "Things",
		Endpoints:  all,
		Tables:     []ovsdb.TableRequest{thingTable, otherTable},
		Receiver:   r,
		MinBackoff: 5 * time.Millisecond,
		MaxBackoff: 50 * time.Millisecond,
	}
	if change != nil {
		change(&cfg)
	}
	c := ovsdb.New(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != context.Canceled {
			t.Errorf("Run: %v", err)
		}
	})
	return c
}
