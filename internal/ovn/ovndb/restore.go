// SPDX-License-Identifier: Apache-2.0

package ovndb

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/puntdns/puntdns/internal/ovn/interest"
	"github.com/puntdns/puntdns/internal/ovn/saved"
	"github.com/puntdns/puntdns/internal/ovsdb"
	"github.com/puntdns/puntdns/internal/ovsdb/rows"
)

// A warm start serves the rows that the last process saved in a file, once the chassis is known. Until
// Southbound is in sync, tunnel keys and port names may have passed to another tenant. So a guest is served
// only while ovn-controller's flows in the switch confirm its row and keys.
//
//	file ─ load ─► restore (SetLocal) ─► rows, conditions, position
//	                                                                │
//	switch ─ flows of table 0 ─► Confirm ─► confirmed ─► guests ◄───┘
//
// ovn-controller's flow for a port's packets loads the tunnel keys. Its cookie is the first 32 bits of the
// UUID of the Port_Binding (OVN's controller/physical.c, consider_port_binding). northd makes a new row for a
// port that was deleted or has moved, and a row never changes its datapath. So a port whose row and keys are
// in a flow is still on the saved network.

// WarmStart selects where rows are saved for the next process.
type WarmStart struct {
	Folder string
	MaxAge time.Duration
}

const (
	readPatience    = 10 * time.Second
	chassisPatience = 2 * time.Second
	// Unconfirmed guests keep a restored snapshot unsettled for confirmPatience.
	confirmPatience = 3 * time.Second
	// mirrorLimit is in bytes for each of two databases in a file.
	mirrorLimit = saved.MaxSize / 3
	filePrefix  = "ovn-"
)

// warm is guarded by Source.mu; path, expected and begin are set before the start.
type warm struct {
	path     string
	expected saved.Expected
	// begin is closed when the clients start, nil if they need not wait.
	begin   chan struct{}
	waiting bool
	file    *saved.File
	// asOf is when the restored rows were last in sync.
	asOf time.Time
	// patient is set during confirmPatience while guests are unconfirmed.
	patient bool
	timers  []*time.Timer

	// savedUptime and failure are of the last write.
	savedUptime time.Duration
	failure     string
}

func fileName(key string) string {
	sum := sha256.Sum256([]byte(key))
	return filePrefix + hex.EncodeToString(sum[:8])
}

// prepareWarmStart makes the clients wait for load.
func (s *Source) prepareWarmStart() {
	w, cfg := &s.warm, s.config
	w.path, w.expected = filepath.Join(cfg.WarmStart.Folder, fileName(cfg.Key())), saved.Expected{Config: cfg.Key(), MaxAge: cfg.WarmStart.MaxAge}
	for _, c := range s.databases {
		c.mirror = ovsdb.NewMirror(mirrorLimit)
		w.expected.Databases = append(w.expected.Databases, saved.Database{Name: c.status.Database, Columns: rowColumns(c.Tables)})
	}
	var err error
	if w.expected.Boot, err = saved.Boot(); err != nil {
		s.log.Warningf("%s: %v: neither used nor written", w.path, err)
		w.path = ""
		return
	}
	w.begin, w.waiting = make(chan struct{}), true
	s.dropAfter(readPatience, func() bool { return w.file == nil }, "it has not been read yet")
}

func (s *Source) dropAfter(patience time.Duration, condition func() bool, why string) {
	s.warm.timers = append(s.warm.timers, time.AfterFunc(patience, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if condition() {
			s.drop(why)
		}
	}))
}

// load reads the file without mu, as the disk may hang.
func (s *Source) load() {
	w := &s.warm
	folder := filepath.Dir(w.path)
	failure := saved.Probe(folder)
	saved.Sweep(folder, filePrefix)
	f, err := saved.Read(w.path)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noteSaved(failure)
	if !w.waiting || s.closed {
		return
	}
	if err == nil {
		err = s.check(f)
	}
	switch {
	case errors.Is(err, os.ErrNotExist):
		s.drop("")
	case err != nil:
		s.drop(err.Error())
	case s.chassis == "":
		w.file = f
		s.dropAfter(chassisPatience, func() bool { return true }, "the chassis is not known")
	default:
		w.file = f
		s.restore(s.chassis)
		s.update()
	}
}

func (s *Source) check(f *saved.File) error {
	now, err := saved.Uptime()
	if err != nil {
		return err
	}
	return s.warm.expected.Check(f, now)
}

func rowColumns(tables rows.Tables) map[string][]string {
	all := make(map[string][]string, len(tables))
	for _, r := range tables.Requests() {
		all[r.Table] = append(append([]string{}, r.Columns...), r.Optional...)
	}
	return all
}

func (w *warm) startClients() {
	if w.waiting {
		w.waiting, w.file = false, nil
		close(w.begin)
	}
}

// drop starts waiting clients without the file. mu is held.
func (s *Source) drop(why string) {
	w := &s.warm
	if !w.waiting {
		return
	}
	if why != "" {
		s.log.Warningf("%s: not used: %s", w.path, why)
	}
	s.forgetConfirmed()
	w.startClients()
}

// mu is held.
func (s *Source) restore(chassis string) {
	w := &s.warm
	if w.file == nil || chassis == "" || s.closed {
		return
	}
	if w.file.Chassis != chassis {
		s.drop(fmt.Sprintf("it is of chassis %q", w.file.Chassis))
		return
	}
	if err := s.check(w.file); err != nil { // it may have expired meanwhile
		s.drop(err.Error())
		return
	}
	sets := make([]interest.ConditionSet, len(s.databases))
	for i := range s.databases {
		var err error
		if sets[i], err = decodeConditions(w.file.Databases[i].Conditions); err != nil {
			s.drop(err.Error())
			return
		}
	}
	for i, d := range s.databases {
		s.restoreDatabase(d, &w.file.Databases[i], sets[i])
	}
	w.asOf, w.patient = w.file.Saved, true
	s.log.Infof("%s: taken from %s, until the databases are in sync", w.path, w.asOf.Format(time.RFC3339))
	w.timers = append(w.timers, time.AfterFunc(confirmPatience, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if w.patient {
			w.patient, s.coverageChanged = false, true
			s.update()
		}
	}))
	w.startClients()
}

func (s *Source) restoreDatabase(c *connection, from *saved.Database, acknowledged interest.ConditionSet) {
	var row ovsdb.Row
	for _, table := range c.Tables {
		columns := len(from.Columns[table.Name()])
		for id, b := range from.Rows[table.Name()] {
			if ovsdb.DecodeRow(b, &row, columns) == nil {
				table.Stage(id, ovsdb.Insert, &row)
			}
		}
	}
	c.mirror.StageAll(from.Rows)
	c.apply()
	c.Acknowledged = acknowledged
	c.filled, c.begun, c.keysAdded, c.missingKeys = true, true, false, nil
	c.restored, c.position = true, from.Position
	c.status.Saved = s.warm.file.Saved
	c.client = c.connect(&from.Position)
}

// NeedsConfirmation reports whether guests depend on Confirm, or soon may.
func (s *Source) NeedsConfirmation() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.needsConfirmation()
}

func (s *Source) needsConfirmation() bool { return s.isRestored() || s.warm.waiting }

func (s *Source) isRestored() bool { return s.sb != nil && s.sbConn.restored }

// awaitsConfirmation reports whether a restored snapshot may soon have more guests.
func (s *Source) awaitsConfirmation() bool {
	return s.isRestored() && s.warm.patient && (len(s.localPorts()) == 0 || !s.guestInputs(time.Time{}).AllConfirmed())
}

// SaveFailure returns why the saved state can't be written, or "".
func (s *Source) SaveFailure() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.warm.failure
}

// mu is held.
func (s *Source) refreshed(c *connection) {
	if !c.restored {
		return
	}
	c.restored, c.status.Saved = false, time.Time{}
	s.coverageChanged = true
	if !s.isRestored() {
		s.warm.patient = false
		s.forgetConfirmed()
		s.markAllPorts()
	}
}

func (s *Source) anyRestored() bool {
	return slices.ContainsFunc(s.databases, func(c *connection) bool { return c.restored })
}
