// SPDX-License-Identifier: Apache-2.0

package auditlog

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/puntdns/puntdns/internal/testkit"
	"github.com/puntdns/puntdns/test/lab"
)

// Each line is in the file once, and the lines of one goroutine are in order. The file has mode 0640 whatever
// the umask is, an existing file is appended to, and the end of the last lease writes the queue.
func TestFile(t *testing.T) {
	defer unix.Umask(unix.Umask(0o077))
	path := filepath.Join(t.TempDir(), "audit.json")
	for run := range 2 {
		first, second := acquire(t, path, Config{Queue: 16 << 20}, new(testkit.Lines)), acquire(t, path, Config{Queue: 16 << 20}, new(testkit.Lines))
		var wg sync.WaitGroup
		for g := range 8 {
			l := []*Lease{first, second}[g%2]
			wg.Go(func() {
				for i := range 1000 {
					l.Append(fmt.Appendf(nil, `"event":"query","n":%d}`, g*1000+i))
				}
			})
		}
		wg.Wait()
		first.Release()
		first.Release() // does nothing
		if n := len(All()); n != 1 {
			t.Errorf("%d writers after the first release", n)
		}
		second.Release()
		all := decoded(t, read(t, path))[run*8002:]
		if len(all) != 8002 || all[0].Event != "start" || all[8001].Event != "stop" {
			t.Fatalf("%d lines from %q to %q, want 8002 from start to stop", len(all), all[0].Event, all[len(all)-1].Event)
		}
		next := map[int]int{}
		for i, l := range all {
			if l.Seq != uint64(i+1) {
				t.Fatalf("line %d has the sequence number %d", i, l.Seq)
			}
			if l.N != nil {
				if *l.N%1000 != next[*l.N/1000] {
					t.Fatalf("line %d of %d is not in order", *l.N%1000, *l.N/1000)
				}
				next[*l.N/1000]++
			}
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v, want -rw-r-----", info.Mode(), err)
	}
}

// Under many rotations no line is lost, doubled or cut in two.
func TestRotationBySize(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.json")
	log := new(testkit.Lines)
	l := acquire(t, path, Config{Queue: 64 << 20, Rotation: Rotation{Size: 8 << 10, Keep: -1}}, log)
	const queries = 20000
	for i := range queries {
		l.Append(members(i))
		if i%500 == 0 {
			testkit.Eventually(t, "an empty queue", func() bool { s, _ := statsOf(path); return s.Queued == 0 })
		}
	}
	testkit.Eventually(t, "an empty queue", func() bool { s, _ := statsOf(path); return s.Queued == 0 })
	s, _ := statsOf(path)
	l.Release()
	old := rotatedFiles(path)
	// The last line may have its own.
	if n := uint64(len(old)); n < 30 || n < s.Rotated || n > s.Rotated+1 || s.Written != queries+1 {
		t.Errorf("%d old files, %+v", len(old), s)
	}
	checkNumbers(t, decoded(t, whole(t, path)), queries)
	if len(log.All()) > 0 {
		t.Error(log.All())
	}
}

func TestKeep(t *testing.T) {
	now := time.Now()
	stamp := func(ago time.Duration) string { return now.Add(-ago).UTC().Format(rotatedLayout) }
	hour, day, week := stamp(time.Hour), stamp(24*time.Hour), stamp(7*24*time.Hour)
	others := []string{"audit.json", "audit.json.old", "audit.jsonx" + hour, "other.json" + week, "audit.json" + week + "gz"}
	tests := []struct {
		name string
		r    Rotation
		want string
	}{
		{"all", Rotation{Size: 1, Keep: -1}, "hour day.gz week"},
		{"some", Rotation{Size: 1, Keep: 2}, "hour day.gz"},
		{"none", Rotation{Size: 1}, ""},
		{"by age", Rotation{Age: time.Hour, Keep: -1, KeepAge: 2 * 24 * time.Hour}, "hour day.gz"},
		{"by both", Rotation{Size: 1, Keep: 1, KeepAge: 2 * 24 * time.Hour}, "hour"},
		{"rotated by somebody else", Rotation{}, "hour day.gz week"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			files := map[string]string{"hour": "audit.json" + hour, "day.gz": "audit.json" + day + ".gz", "week": "audit.json" + week}
			for _, name := range append(others, files["hour"], files["day.gz"], files["week"]) {
				if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			f := &file{path: filepath.Join(dir, "audit.json"), log: new(testkit.Lines), rotation: func() Rotation { return tt.r }}
			f.prune(now)
			var left []string
			for _, name := range []string{"hour", "day.gz", "week"} {
				if _, err := os.Stat(filepath.Join(dir, files[name])); err == nil {
					left = append(left, name)
				}
			}
			if got := strings.Join(left, " "); got != tt.want {
				t.Errorf("%q are left, want %q", got, tt.want)
			}
			for _, name := range others {
				if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// A file is rotated by its age though no line comes, and not when it is empty.
func TestRotationByAge(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.json")
	rotated := 0
	f := &file{
		path: path, log: new(testkit.Lines), rotated: func() { rotated++ },
		rotation: func() Rotation { return Rotation{Age: time.Hour, Keep: -1} },
	}
	defer f.close()
	if err := f.open(); err != nil {
		t.Fatal(err)
	}
	f.born = time.Now().Add(-2 * time.Hour)
	f.maintain()
	if rotated != 0 {
		t.Fatal("an empty file is rotated")
	}
	write := func() {
		t.Helper()
		if _, err := f.write(t.Context(), []byte("{\"seq\":1}\n")); err != nil {
			t.Fatal(err)
		}
	}
	write()
	f.maintain()
	if old := rotatedFiles(path); rotated != 1 || len(old) != 1 {
		t.Fatalf("%d rotations, old files %v", rotated, old)
	}
	write()
	f.maintain()
	if rotated != 1 {
		t.Error("a young file is rotated")
	}
	if got := string(read(t, path)); got != "{\"seq\":1}\n" {
		t.Errorf("the new file has %q", got)
	}
}

// What others do to the file.
func TestFileOfOthers(t *testing.T) {
	tests := []struct {
		name   string
		change func(path string) error
		// lost is how many of the three queries are not in the files that remain.
		lost int
		log  string
	}{
		{"nothing", func(string) error { return nil }, 0, ""},
		{"removed", os.Remove, 1, "was removed"},
		{"moved", func(path string) error { return os.Rename(path, path+time.Now().UTC().Format(rotatedLayout)) }, 0, "was moved"},
		{"moved, and made anew", func(path string) error {
			if err := os.Rename(path, path+time.Now().UTC().Format(rotatedLayout)); err != nil {
				return err
			}
			return os.WriteFile(path, nil, 0o600)
		}, 0, "was moved"},
		{"copied and truncated", func(path string) error {
			b, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path+time.Now().UTC().Format(rotatedLayout), b, 0o600)
			}
			if err == nil {
				err = os.Truncate(path, 0)
			}
			return err
		}, 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "audit.json")
			log := new(testkit.Lines)
			l := acquire(t, path, Config{}, log)
			put := func(n int) {
				s, _ := statsOf(path)
				l.Append(members(n))
				testkit.Eventually(t, "a line", func() bool { now, _ := statsOf(path); return now.Written > s.Written })
			}
			testkit.Eventually(t, "the first line", func() bool { s, _ := statsOf(path); return s.Written == 1 })
			put(0)
			if err := tt.change(path); err != nil {
				t.Fatal(err)
			}
			put(1)
			put(2)
			l.Release()
			queries := 0
			for _, l := range decoded(t, whole(t, path)) {
				if l.N != nil {
					queries++
				}
			}
			if queries != 3-tt.lost {
				t.Errorf("%d queries in the files", queries)
			}
			if tt.log == "" && len(log.All()) > 0 || tt.log != "" && (len(log.All()) != 1 || log.Count(tt.log) != 1) {
				t.Errorf("the log has %q, want %q once", log.All(), tt.log)
			}
		})
	}
}

// Two writers of a file, as two processes have them, rotate it without losing a line.
func TestTwoProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.json")
	to, log := Target{"file", path}, new(testkit.Lines)
	c := Config{Queue: 16 << 20, Rotation: Rotation{Size: 4 << 10, Keep: -1}}
	var all []*Writer
	for range 2 {
		w := newPatientWriter(to, c, log)
		if err := w.sink.open(); err != nil {
			t.Fatal(err)
		}
		w.start()
		all = append(all, w)
	}
	const n = 3000
	for i := range n {
		all[i%2].queue.append(members(i))
		if i%100 == 0 {
			for _, w := range all {
				testkit.Eventually(t, "an empty queue", func() bool { return w.queue.size.Load() == 0 })
			}
		}
	}
	for _, w := range all {
		w.queue.close()
		close(w.stop)
		<-w.done
	}
	seen := map[int]int{}
	for _, l := range decoded(t, whole(t, path)) {
		if l.N != nil {
			seen[*l.N]++
		}
	}
	for i := range n {
		if seen[i] != 1 {
			t.Fatalf("line %d is there %d times", i, seen[i])
		}
	}
	if len(rotatedFiles(path)) < 5 || len(log.All()) > len(rotatedFiles(path)) {
		t.Errorf("%d old files, log %q", len(rotatedFiles(path)), log.All())
	}
}

func TestHalfLine(t *testing.T) {
	long := strings.Repeat("x", 3*chunkSize)
	tests := []struct{ name, before, want string }{
		{"an empty file", "", ""},
		{"a whole line", "{\"seq\":1}\n", "{\"seq\":1}\n"},
		{"a half line", "{\"seq\":1}\n{\"seq\":2,\"na", "{\"seq\":1}\n"},
		{"a half line alone", "{\"seq\":2,\"na", ""},
		{"its first bytes", "{\"seq\":1}\n{\"s", "{\"seq\":1}\n"},
		{"something else", "# a comment", "# a comment\n"},
		{"something long", long, long + "\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "audit.json")
			if err := os.WriteFile(path, []byte(tt.before), 0o600); err != nil {
				t.Fatal(err)
			}
			f := &file{path: path, log: new(testkit.Lines), rotation: func() Rotation { return Rotation{} }}
			if err := f.open(); err != nil {
				t.Fatal(err)
			}
			f.close()
			if got := string(read(t, path)); got != tt.want {
				t.Errorf("%.40q, want %.40q", got, tt.want)
			}
		})
	}
}

// smallDisk returns a folder with room for 64 KiB.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("auditlog", dir, "tmpfs", 0, "size=64k"); err != nil {
		lab.Lack(t, "there is no file system to fill: mount needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// If the disk takes only a part of a write, no half line stays, and the other part is written once there is
// space.
func TestPartOfAWrite(t *testing.T) {
	dir := smallDisk(t)
	path, filler := filepath.Join(dir, "audit.json"), filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 32<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	log := new(testkit.Lines)
	l := acquire(t, path, Config{Queue: 1 << 20}, log)
	const n = 1500 // some 50 KiB
	for i := range n {
		l.Append(members(i))
	}
	testkit.Eventually(t, "a full disk", func() bool { s, _ := statsOf(path); return !s.Up && s.Errors > 1 })
	if all := decoded(t, read(t, path)); len(all) < 500 || len(all) >= n {
		t.Errorf("%d lines on the full disk", len(all))
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "all lines", func() bool { s, _ := statsOf(path); return s.Up && s.Written == n+1 })
	l.Release()
	checkNumbers(t, decoded(t, read(t, path)), n)
	if log.Count("not written") != 1 || log.Count("written again") != 1 || len(log.All()) != 2 {
		t.Error(log.All())
	}
}

// Old files that are due are removed while the disk is full: that may be what gives it room.
func TestPruneOnFullDisk(t *testing.T) {
	dir := smallDisk(t)
	path := filepath.Join(dir, "audit.json")
	old := path + time.Now().Add(-time.Hour).UTC().Format(rotatedLayout)
	if err := os.WriteFile(old, make([]byte, 32<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	to, log := Target{"file", path}, new(testkit.Lines)
	c := Config{Queue: 1 << 20, Rotation: Rotation{Age: 1000 * time.Hour, Keep: -1}}
	l, err := acquireFrom(to, c, log, func(to Target, c Config, log Logger) *Writer {
		w := newPatientWriter(to, c, log)
		w.maintainEvery = time.Millisecond
		return w
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Release)
	const n = 1500 // some 50 KiB
	for i := range n {
		l.Append(members(i))
	}
	testkit.Eventually(t, "a full disk", func() bool { s, _ := statsOf(path); return !s.Up })
	c.Rotation.KeepAge = time.Minute
	acquire(t, path, c, log)
	testkit.Eventually(t, "all lines", func() bool { s, _ := statsOf(path); return s.Up && s.Written == n+1 })
	checkNumbers(t, decoded(t, read(t, path)), n)
}

// While the disk is full, lines wait; those over the bound are lost, and a line says how many,
// where they would be.
func TestFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.json")
	if err := os.Symlink("/dev/full", path); err != nil {
		t.Fatal(err)
	}
	log := new(testkit.Lines)
	l := acquire(t, path, Config{Queue: 8 << 10}, log)
	const n = 1000
	for i := range n {
		l.Append(members(i))
	}
	testkit.Eventually(t, "two errors", func() bool { s, _ := statsOf(path); return s.Errors >= 2 })
	s, _ := statsOf(path)
	if s.Up || s.Written != 0 || s.Dropped == 0 || s.Queued > 8<<10 {
		t.Errorf("%+v on a full disk", s)
	}
	if err := os.WriteFile(path+".new", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "lines", func() bool { s, _ := statsOf(path); return s.Up && s.Queued == 0 })
	l.Append(members(n))
	l.Release()
	var seq, lost uint64
	queries := 0
	for _, l := range decoded(t, read(t, path)) {
		if l.Event == "lost" {
			if l.Lines != l.Seq-seq-1 {
				t.Errorf("line %d says that %d were lost, and %d are missing before it", l.Seq, l.Lines, l.Seq-seq-1)
			}
			lost += l.Lines
		} else if l.Seq != seq+1 {
			t.Errorf("line %d behind %d, and no word of it", l.Seq, seq)
		}
		if l.N != nil {
			queries++
		}
		seq = l.Seq
	}
	if queries+int(lost) != n+1 || lost != s.Dropped {
		t.Errorf("%d queries and %d that were lost, want %d in all and %d", queries, lost, n+1, s.Dropped)
	}
	if log.Count("not written") != 1 || log.Count("written again") != 1 {
		t.Error(log.All())
	}
}

// A file that can't be renamed is written on.
func TestRotationFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.json")
	log := new(testkit.Lines)
	f := &file{path: path, log: log, rotated: func() { t.Error("it is rotated") }, rotation: func() Rotation { return Rotation{Size: 20} }}
	defer f.close()
	if err := f.open(); err != nil {
		t.Fatal(err)
	}
	long := filepath.Join(dir, strings.Repeat("n", 250)) // with a time behind it too long for a name
	if err := os.Rename(path, long); err != nil {
		t.Fatal(err)
	}
	f.path = long
	for range 5 {
		if _, err := f.write(t.Context(), []byte("{\"seq\":1,\"a\":1}\n")); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(decoded(t, read(t, long))); n != 5 || log.Count("not rotated") != 1 {
		t.Errorf("%d lines, log %q", n, log.All())
	}
}

// A half line that another process is writing is not taken away, nor what that has written.
func TestHalfLineOfAnother(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.json")
	const half, rest = "{\"seq\":1}\n{\"se", "q\":2}\n"
	if err := os.WriteFile(path, []byte(half), 0o600); err != nil {
		t.Fatal(err)
	}
	other, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := unix.Flock(int(other.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	newFile := func(timeout time.Duration) *file {
		return &file{path: path, log: new(testkit.Lines), lockTimeout: timeout, rotation: func() Rotation { return Rotation{} }}
	}
	t.Run("which has the lock for good", func(t *testing.T) {
		f := newFile(0)
		defer f.close()
		if err := f.open(); err != nil {
			t.Fatal(err)
		}
		if got := string(read(t, path)); got != half+"\n" {
			t.Errorf("%q", got)
		}
		if err := os.Truncate(path, int64(len(half))); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("which ends its write", func(t *testing.T) {
		f, opened := newFile(wait), make(chan error)
		defer f.close()
		go func() { opened <- f.open() }()
		if _, err := other.WriteString(rest); err != nil {
			t.Fatal(err)
		}
		if err := unix.Flock(int(other.Fd()), unix.LOCK_UN); err != nil {
			t.Fatal(err)
		}
		if err := <-opened; err != nil {
			t.Fatal(err)
		}
		if all := decoded(t, read(t, path)); len(all) != 2 {
			t.Errorf("%v, want both lines", all)
		}
	})
}

// A pipe that takes a part of a write gets the line whose half it has once more, behind a newline.
func TestPartOfAWriteToAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	f := &file{path: path, log: new(testkit.Lines), timeouts: &timeouts{write: time.Second}} // none that passes before the write
	defer f.close()
	p := []byte(strings.Repeat("{\"seq\":1,\"n\":100}\n", 20000)) // more than a pipe holds
	n, err := f.write(t.Context(), p)
	if err == nil || n == len(p) {
		t.Fatalf("the pipe takes %d bytes, %v", n, err)
	}
	took := make([]byte, len(p))
	taken, err := r.Read(took)
	if err != nil || taken <= n {
		t.Fatalf("%d bytes are in the pipe, %v, want more than the %d of whole lines", taken, err, n)
	}
	if n, err = f.write(t.Context(), p[:36]); err != nil || n != 36 {
		t.Fatalf("%d, %v", n, err)
	}
	want := "\n" + string(p[:36])
	got := make([]byte, 100)
	if taken, err = r.Read(got); err != nil || string(got[:taken]) != want {
		t.Errorf("%q follows, %v, want %q", got[:taken], err, want)
	}
}

// An old file that can't be removed does not protect other files, and the log reports it once.
func TestOldFileStays(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.json")
	now := time.Now()
	var old []string
	for _, ago := range []time.Duration{2 * time.Hour, time.Hour} {
		name := path + now.Add(-ago).UTC().Format(rotatedLayout)
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		old = append(old, name)
	}
	if err := unix.Mount(old[0], old[0], "", unix.MS_BIND, ""); err != nil {
		lab.Lack(t, "there is no file that stays: mount needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(old[0], unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	log := new(testkit.Lines)
	f := &file{path: path, log: log, rotation: func() Rotation { return Rotation{Size: 1} }}
	f.prune(now)
	f.prune(now)
	if left := rotatedFiles(path); len(left) != 1 || left[0].path != old[0] || log.Count("not removed") != 1 {
		t.Errorf("%v are left, log %q", left, log.All())
	}
}

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	there := filepath.Join(dir, "there")
	if err := os.WriteFile(there, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(dir, "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, target, want string }{
		{"a file", there, ""},
		{"a new file", filepath.Join(dir, "new"), ""},
		{"a folder", dir, "expected a file"},
		{"no folder", filepath.Join(dir, "none", "file"), "expected a folder that this user may write to"},
		{"a pipe that nobody reads", pipe, "expected a file that this user may write to"},
		{"no collector", "unix:" + filepath.Join(dir, "none", "socket"), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			to, err := ParseTarget(tt.target)
			if err != nil {
				t.Fatal(err)
			}
			err = to.Check()
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 2 || string(read(t, there)) != "text" {
		t.Errorf("the check has changed something: %v", entries)
	}
}

func TestParseTarget(t *testing.T) {
	tests := []struct{ text, want, err string }{
		{"/var/log/puntdns/audit.json", "/var/log/puntdns/audit.json", ""},
		{"/var/log/../log//audit.json", "/var/log/audit.json", ""},
		{"unix:/run/audit.sock", "unix:/run/audit.sock", ""},
		{"tcp:[2001:db8::1]:5170", "tcp:[2001:db8::1]:5170", ""},
		{"audit.json", "", `"audit.json": expected an absolute path, unix:PATH or tcp:HOST:PORT`},
		{"ssl:192.0.2.1:5170", "", "expected an absolute path"},
		{"tcp:192.0.2.1", "", "tcp:192.0.2.1"},
		{"", "", "expected an absolute path"},
	}
	for _, tt := range tests {
		got, err := ParseTarget(tt.text)
		switch {
		case tt.err == "" && (err != nil || got.String() != tt.want):
			t.Errorf("%q: %v, %v, want %s", tt.text, got, err, tt.want)
		case tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)):
			t.Errorf("%q: %v, %v, want an error with %s", tt.text, got, err, tt.err)
		}
	}
}
