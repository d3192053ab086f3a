// SPDX-License-Identifier: Apache-2.0

package ovn

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/puntdns/puntdns/internal/ovn/saved"
	"github.com/puntdns/puntdns/internal/ovsdb"
)

// savedConditions is a conditionSet in a file.
type savedConditions struct {
	Others  []string
	Rows    map[string][]ovsdb.UUID
	Far     []savedPortRef
	Ports   []string
	Parents []string `json:",omitempty"`
	Routers bool
	Named   []ovsdb.UUID
}

type savedPortRef struct {
	Name string     `json:",omitempty"`
	ID   ovsdb.UUID `json:",omitzero"`
}

func encodeConditions(c conditionSet) (json.RawMessage, error) {
	out := savedConditions{Others: c.others, Rows: c.coverage.rows, Ports: c.coverage.ports, Parents: c.coverage.parents, Routers: c.coverage.routers, Named: c.coverage.named}
	for _, p := range c.coverage.farPorts {
		out.Far = append(out.Far, savedPortRef{p.name, p.id})
	}
	return json.Marshal(out)
}

// decodeConditions returns conditions as ones that are acknowledged.
func decodeConditions(text json.RawMessage) (conditionSet, error) {
	var in savedConditions
	if err := json.Unmarshal(text, &in); err != nil {
		return conditionSet{}, fmt.Errorf("its conditions can't be read: %w", err)
	}
	c := conditionSet{gen: 1, others: in.Others, coverage: coverage{rows: in.Rows, ports: in.Ports, parents: in.Parents, routers: in.Routers, named: in.Named}}
	for _, p := range in.Far {
		c.coverage.farPorts = append(c.coverage.farPorts, portRef{p.Name, p.ID})
	}
	return c, nil
}

// keepSaving writes the file from time to time, if there is something new, until ctx ends.
func (s *Source) keepSaving(ctx context.Context) {
	wait := minSaveInterval
	for {
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
		}
		begun := time.Now()
		s.save(false)
		wait = max(minSaveInterval, saveFactor*time.Since(begun))
	}
}

// save writes the file if there is something new; if last is set also if only time has passed. It
// takes mu for as long as it takes to list the rows, not to encode or write them.
func (s *Source) save(last bool) {
	s.mu.Lock()
	if time.Since(s.warm.partingAt) > partingTime {
		s.warm.parting = nil // a reload has taken requests back
	}
	f := s.warm.parting
	if !last || f == nil {
		f = s.picture(last)
	}
	path, before := s.warm.path, s.warm.failure
	s.mu.Unlock()
	if f == nil {
		return
	}
	b, err := saved.Encode(f)
	if err == nil {
		err = saved.Write(path, b)
	}
	failure := ""
	if err != nil {
		failure = err.Error()
	}
	s.mu.Lock()
	s.warm.failure = failure
	if err != nil {
		s.warm.unsaved = true
	}
	s.mu.Unlock()
	switch {
	case failure != "" && before == "":
		s.log.Warningf("%s: not written: %v", path, err)
	case failure == "" && before != "":
		s.log.Infof("%s: written again", path)
	}
}

// partingTime is how long a picture of keepPicture is good for the last write.
const partingTime = 10 * time.Second

// keepPicture keeps what would be written now for the last write. mu is held.
func (s *Source) keepPicture() {
	w := &s.warm
	if w.path == "" || w.parting != nil && time.Since(w.partingAt) <= partingTime {
		return
	}
	unsaved, uptime := w.unsaved, w.savedUptime
	w.unsaved = true
	w.parting, w.partingAt = s.picture(true), time.Now()
	w.unsaved, w.savedUptime = unsaved, uptime
}

// picture returns what is to be written, nil for nothing: the rows are not consistent, are those
// of a file themselves, or are in the file already, which will be good for a while. mu is held.
func (s *Source) picture(last bool) *saved.File {
	w := &s.warm
	if w.path == "" || s.chassis == "" || s.anyStale() {
		return nil
	}
	now, err := saved.Uptime()
	if err != nil {
		return nil
	}
	f := &saved.File{Saved: time.Now(), Boot: w.boot, Uptime: now, Config: w.key, Chassis: s.chassis}
	for _, d := range s.databases {
		out, ok := d.conn().picture()
		if !ok {
			return nil
		}
		f.Databases = append(f.Databases, out)
		// In an outage the rows are those of its beginning.
		if since := d.conn().status.Since; !d.conn().status.Synced && since.Before(f.Saved) {
			f.Uptime -= f.Saved.Sub(since)
			f.Saved = since
		}
	}
	if !w.unsaved && f.Uptime-w.savedUptime < w.maxAge/4 && (!last || f.Uptime <= w.savedUptime) {
		return nil
	}
	for i, d := range s.databases {
		var ok bool
		if f.Databases[i].Rows, ok = d.conn().mirror.Rows(); !ok {
			if w.failure == "" {
				w.failure = "too many rows"
				s.log.Warningf("%s: not written: %s has more than %d MiB of rows", w.path, f.Databases[i].Name, mirrorLimit>>20)
			}
			return nil
		}
	}
	w.unsaved, w.savedUptime = false, f.Uptime
	return f
}

// picture returns a database without its rows. It reports whether the rows are a state of it.
func (c *connection) picture() (out saved.Database, ok bool) {
	if c.partial || c.position.IsZero() {
		return out, false
	}
	out = saved.Database{Name: c.status.Database, Columns: rowColumns(c.tables), Position: c.position}
	var err error
	out.Conditions, err = encodeConditions(c.acknowledged)
	return out, err == nil
}
