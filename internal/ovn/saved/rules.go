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
	// minInterval is the least time between two writes of a file.
	minInterval = 10 * time.Second
	// writeShare bounds the share of the time that writes take, as 1 in so many.
	writeShare = 20
)

// Expected is what a file must have to be of use.
type Expected struct {
	// Config and Boot are those of File.
	Config, Boot string
	// MaxAge bounds the time since File.Uptime.
	MaxAge time.Duration
	// Databases have the names and the columns. Their other fields are not compared.
	Databases []Database
}

// Check returns why a file is of no use, nil if it is of use. uptime is that of now.
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

// IsDue reports whether a file is to be written whose rows are those of uptime. written is the Uptime of
// the last write, changed whether rows have changed since, and last is set at the regular end.
//
// A position in the database that has moved without a row is written with the next change of a row, with a
// quarter of MaxAge, and at the regular end. A process that is killed may so leave a position that the
// servers have forgotten: then the next process has the rows sent anew. To write each position would cost
// each node a write every 10 s.
func (e *Expected) IsDue(uptime, written time.Duration, changed, last bool) bool {
	return changed || uptime-written >= e.MaxAge/4 || last && uptime > written
}

// Interval returns the time to the next write after a write that took so long.
func Interval(took time.Duration) time.Duration { return max(minInterval, writeShare*took) }

// IsSuperseded reports whether the file at path has newer rows than f for the same use. Another process may
// have written it: the next process runs beside this one for a while, and this one may be out of sync.
func IsSuperseded(f *File, path string) bool {
	there, err := ReadHead(path)
	return err == nil && there.Boot == f.Boot && there.Config == f.Config && there.Chassis == f.Chassis && there.Uptime > f.Uptime
}
