// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/puntdns/puntdns/internal/ovn/interest"
	"github.com/puntdns/puntdns/internal/ovn/saved"
)

func decodeConditions(text json.RawMessage) (interest.ConditionSet, error) {
	var c interest.Conditions
	if err := json.Unmarshal(text, &c); err != nil {
		return interest.ConditionSet{}, fmt.Errorf("its conditions can't be read: %w", err)
	}
	return interest.ConditionSet{Gen: 1, Conditions: c.Sort()}, nil
}

func (s *Source) keepSaving(ctx context.Context) {
	wait := saved.Interval(0)
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
		wait = saved.Interval(time.Since(begun))
	}
}

// save encodes and writes the rows without mu.
func (s *Source) save(last bool) {
	s.mu.Lock()
	path := s.warm.path
	f, err := s.savedState(last)
	if f != nil {
		s.noteWriting(f)
	}
	s.mu.Unlock()
	if f == nil && err == nil || f != nil && saved.IsSuperseded(f, path) {
		return
	}
	if err == nil {
		err = write(f, path)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.noteSaved(err); err != nil {
		s.markUnsaved()
	}
}

func write(f *saved.File, path string) error {
	b, err := saved.Encode(f)
	if err != nil {
		return err
	}
	return saved.Write(path, b)
}

// noteSaved logs a changed result. mu is held, or nothing is started.
func (s *Source) noteSaved(err error) {
	w, before := &s.warm, s.warm.failure
	if w.failure = ""; err != nil {
		w.failure = err.Error()
	}
	switch {
	case err != nil && before == "":
		s.log.Warningf("%s: not written: %v", w.path, err)
	case err == nil && before != "":
		s.log.Infof("%s: written again", w.path)
	}
}

func (s *Source) noteWriting(f *saved.File) {
	s.warm.savedUptime = f.Uptime
	for _, d := range s.databases {
		d.unsaved = false
	}
}

func (s *Source) markUnsaved() {
	for _, d := range s.databases {
		d.unsaved = true
	}
}

func (s *Source) isUnsaved() bool {
	return slices.ContainsFunc(s.databases, func(c *connection) bool { return c.unsaved })
}

func (s *Source) savedState(last bool) (*saved.File, error) {
	f, err := s.savedHead()
	w := &s.warm
	if f == nil || !w.expected.IsDue(f.Uptime, w.savedUptime, s.isUnsaved(), last) {
		return nil, err
	}
	return s.addRows(f)
}

// savedHead returns the file without rows, nil for restored rows.
func (s *Source) savedHead() (*saved.File, error) {
	w := &s.warm
	if w.path == "" || s.chassis == "" || s.anyRestored() {
		return nil, nil
	}
	now, err := saved.Uptime()
	if err != nil {
		return nil, err
	}
	f := &saved.File{Saved: time.Now(), Boot: w.expected.Boot, Uptime: now, Config: w.expected.Config, Chassis: s.chassis}
	for _, d := range s.databases {
		out, ok := d.savedHead()
		if !ok {
			return nil, nil
		}
		f.Databases = append(f.Databases, out)
		if since := d.status.Since; !d.status.Synced && since.Before(f.Saved) {
			f.Uptime -= f.Saved.Sub(since)
			f.Saved = since
		}
	}
	return f, nil
}

func (s *Source) addRows(f *saved.File) (*saved.File, error) {
	for i, d := range s.databases {
		var ok bool
		if f.Databases[i].Rows, ok = d.mirror.Rows(); !ok {
			return nil, fmt.Errorf("%s has more than %d MiB of rows", f.Databases[i].Name, mirrorLimit>>20)
		}
	}
	return f, nil
}

func (c *connection) savedHead() (out saved.Database, ok bool) {
	if !c.filled || c.position.IsZero() {
		return out, false
	}
	out = saved.Database{Name: c.status.Database, Columns: rowColumns(c.Tables), Position: c.position}
	var err error
	out.Conditions, err = json.Marshal(c.Acknowledged.Conditions)
	return out, err == nil
}
