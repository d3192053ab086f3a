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

// Priorities that journald reads at the beginning of a line (sd-daemon(3)).
const (
	PriorityErr     = "<3>"
	priorityWarning = "<4>"
	PriorityInfo    = "<6>"
	priorityDebug   = "<7>"
)

// levels are the prefixes of CoreDNS's log lines, and the priority of each.
var levels = []struct{ mark, priority string }{
	{"[INFO] ", PriorityInfo},
	{"[WARNING] ", priorityWarning},
	{"[ERROR] ", PriorityErr},
	{"[FATAL] ", PriorityErr},
	{"[DEBUG] ", priorityDebug},
}

// journalWriter puts the priority before each log line, for journald.
type journalWriter struct {
	w io.Writer
	// other is the priority of a message without a level.
	other string
}

// Write implements io.Writer. Each call has one message. Each line of the message gets the priority, since
// journald reads one from each line.
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

// LogTo returns the writer for log lines that go to f. If f is the journal of systemd, each line gets the
// priority of its level, or other without a level. JSON lines carry their level and stay as they are.
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
