// SPDX-License-Identifier: Apache-2.0

package saved

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

const (
	minInterval = 10 * time.Second
	// Writes take at most 1/writeShare of the time.
	writeShare = 20
)

type Expected struct {
	Config, Boot string
	MaxAge       time.Duration
	// Only names and columns are compared.
	Databases []Database
}

// Check returns why a file is unusable, or nil. uptime is the present Uptime.
func (e *Expected) Check(f *File, uptime time.Duration) error {
	switch age := uptime - f.Uptime; {
	case f.Config != e.Config:
		return errors.New("it is of another configuration")
	case f.Boot != e.Boot:
		return errors.New("the machine has been booted since")
	case age > e.MaxAge || age < 0:
		return fmt.Errorf("it is %s old, and good for %s", age.Round(time.Second), e.MaxAge)
	case len(f.Databases) != len(e.Databases):
		return errors.New("it has other databases")
	}
	for i := range f.Databases {
		has, want := &f.Databases[i], &e.Databases[i]
		if has.Name != want.Name || !maps.EqualFunc(has.Columns, want.Columns, slices.Equal) {
			return errors.New("it has other tables or columns")
		}
	}
	return nil
}

// IsDue reports whether to write a file. uptime is the File.Uptime of its rows, written the Uptime of the
// last write. changed is set if rows have changed since, last on shutdown.
//
// A position that has moved without a change of rows is written after a quarter of MaxAge, and on shutdown.
// So a killed process may leave a position that the servers have forgotten; they then send all rows. Each
// position would cost each node a write every 10 s.
func (e *Expected) IsDue(uptime, written time.Duration, changed, last bool) bool {
	return changed || uptime-written >= e.MaxAge/4 || last && uptime > written
}

func Interval(took time.Duration) time.Duration { return max(minInterval, writeShare*took) }

// IsSuperseded reports whether the file at path has newer rows than f: the next process runs beside this one
// for a while.
func IsSuperseded(f *File, path string) bool {
	there, err := ReadHead(path)
	return err == nil && there.Boot == f.Boot && there.Config == f.Config && there.Chassis == f.Chassis && there.Uptime > f.Uptime
}
