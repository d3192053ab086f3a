// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"fmt"
	"io"
	"os"

	clog "github.com/coredns/coredns/plugin/pkg/log"
	"golang.org/x/sys/unix"
)

// Priorities that journald takes from the beginning of a line (sd-daemon(3)).
const (
	PriorityErr     = "<3>"
	priorityWarning = "<4>"
	PriorityInfo    = "<6>"
	priorityDebug   = "<7>"
)

// levels are how a line of CoreDNS's log begins, and the priority of each.
var levels = []struct{ mark, priority string }{
	{"[INFO] ", PriorityInfo},
	{"[WARNING] ", priorityWarning},
	{"[ERROR] ", PriorityErr},
	{"[FATAL] ", PriorityErr},
	{"[DEBUG] ", priorityDebug},
}

// journalWriter writes the lines of the log with their priority, for journald to read.
type journalWriter struct {
	w io.Writer
	// other is the priority of a message without a level.
	other string
}

// Write implements io.Writer. Each call has one message, of one line or more: journald
// reads a priority from each line.
func (j journalWriter) Write(message []byte) (int, error) {
	priority := j.other
	for _, l := range levels {
		if bytes.HasPrefix(message, []byte(l.mark)) {
			priority = l.priority
			break
		}
	}
	var out []byte
	for line := range bytes.Lines(message) {
		out = append(append(out, priority...), line...)
	}
	if _, err := j.w.Write(out); err != nil {
		return 0, err
	}
	return len(message), nil
}

// LogTo is where the log is written that goes to f. Its lines get their priority, or
// that of others, if f is the journal of systemd. JSON has its level within.
func LogTo(f *os.File, other string) io.Writer {
	if clog.IsJSON() || !isJournal(f, os.Getenv("JOURNAL_STREAM")) {
		return f
	}
	return journalWriter{f, other}
}

// isJournal reports whether f is the stream of the journal: systemd names its device
// and inode in JOURNAL_STREAM (systemd.exec(5)).
func isJournal(f *os.File, stream string) bool {
	var st unix.Stat_t
	if stream == "" || unix.Fstat(int(f.Fd()), &st) != nil {
		return false
	}
	return stream == fmt.Sprintf("%d:%d", st.Dev, st.Ino)
}
