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

// decodeConditions returns conditions of a file as acknowledged ones.
func decodeConditions(text json.RawMessage) (interest.ConditionSet, error) {
	var c interest.Conditions
	if err := json.Unmarshal(text, &c); err != nil {
		return interest.ConditionSet{}, fmt.Errorf("its conditions can't be read: %w", err)
	}
	return interest.ConditionSet{Gen: 1, Conditions: c.Sort()}, nil
}

// keepSaving writes the file from time to time, if there is something new, until ctx ends.
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

// save writes the file if there is something new; if last is set also if only time has passed. It takes
// mu for as long as it takes to list the rows, not to encode or write them.
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

// noteSaved notes how a write has ended, and logs it if it is another end than that of the one before.
// mu is held, or it is before the start.
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

// noteWriting notes that f is about to be written, and markUnsaved that it was not. mu is held.
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

// isUnsaved reports whether rows or conditions have changed since the last write. mu is held.
func (s *Source) isUnsaved() bool {
	return slices.ContainsFunc(s.databases, func(c *connection) bool { return c.unsaved })
}

// savedState returns what is to be written, nil for nothing: the file has it already, or there is none.
// mu is held.
func (s *Source) savedState(last bool) (*saved.File, error) {
	f, err := s.savedHead()
	w := &s.warm
	if f == nil || !w.expected.IsDue(f.Uptime, w.savedUptime, s.isUnsaved(), last) {
		return nil, err
	}
	return s.addRows(f)
}

// savedHead returns the state without rows, nil for none: there are no rows, or those of a file. mu is held.
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
		// In an outage the rows are those of its beginning.
		if since := d.status.Since; !d.status.Synced && since.Before(f.Saved) {
			f.Uptime -= f.Saved.Sub(since)
			f.Saved = since
		}
	}
	return f, nil
}

// addRows adds the rows to what savedHead has returned. mu is held.
func (s *Source) addRows(f *saved.File) (*saved.File, error) {
	for i, d := range s.databases {
		var ok bool
		if f.Databases[i].Rows, ok = d.mirror.Rows(); !ok {
			return nil, fmt.Errorf("%s has more than %d MiB of rows", f.Databases[i].Name, mirrorLimit>>20)
		}
	}
	return f, nil
}

// savedHead returns a database without its rows. It reports whether the rows are a state of the database.
func (c *connection) savedHead() (out saved.Database, ok bool) {
	if !c.filled || c.position.IsZero() {
		return out, false
	}
	out = saved.Database{Name: c.status.Database, Columns: rowColumns(c.Tables), Position: c.position}
	var err error
	out.Conditions, err = json.Marshal(c.Acknowledged.Conditions)
	return out, err == nil
}
