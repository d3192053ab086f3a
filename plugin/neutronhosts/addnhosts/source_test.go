// SPDX-License-Identifier: Apache-2.0

package addnhosts

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/puntdns/puntdns/internal/testkit"
)

const (
	red   = "11111111-aaaa-4bbb-8ccc-000000000001"
	blue  = "11111111-aaaa-4bbb-8ccc-000000000002"
	green = "11111111-aaaa-4bbb-8ccc-000000000003"
)

// follow returns a Source of a folder, and its log.
func follow(t *testing.T, dir string) (*Source, *testkit.Lines) {
	t.Helper()
	log := &testkit.Lines{}
	s := Acquire(dir, log)
	t.Cleanup(s.Release)
	if s.Snapshot() == nil {
		t.Fatal("there is no first snapshot")
	}
	return s, log
}

// write writes a file as the agent does: under another name first.
func write(t testing.TB, dir, text string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.CreateTemp(dir, "tmp")
	if err == nil {
		_, err = f.WriteString(text)
	}
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		err = os.Chmod(f.Name(), 0o644)
	}
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, fileName))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// lookup returns the addresses of a name in a network.
func lookup(s *Source, network, qname string) string {
	n, read := s.Snapshot().Network(network)
	switch {
	case !read:
		return "unread"
	case n == nil:
		return "no network"
	}
	a, ok := n.Lookup(qname, "")
	if !ok {
		return "no name"
	}
	return fmt.Sprint(slices.Concat(a.V4, a.V6))
}

// await waits until a lookup returns that. A look at all files happens in pollInterval at the
// latest.
func await(t *testing.T, s *Source, network, qname, want string) {
	t.Helper()
	testkit.OnChange(t, s, qname+" in "+network, func() error {
		if got := lookup(s, network, qname); got != want {
			return fmt.Errorf("%s, want %s", got, want)
		}
		return nil
	})
}

// awaitProblems waits until that many files and folders can't be read.
func awaitProblems(t *testing.T, s *Source, want int) {
	t.Helper()
	testkit.OnChange(t, s, "problems", func() error {
		if got := s.Problems(); len(got) != want {
			return fmt.Errorf("%q, want %d", got, want)
		}
		return nil
	})
}

func TestSource(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "later", "dhcp")
	polling, log := follow(t, dir)
	if log.Count("is not there") != 1 {
		t.Errorf("the log of a missing folder: %q", log.All())
	}
	write(t, filepath.Join(dir, red), "10.0.0.1 vm1.x. vm1\n")
	await(t, polling, red, "vm1.", "[10.0.0.1]") // by the poll

	s := start(dir, log, time.Hour) // all that follows comes by inotify
	t.Cleanup(s.stop)
	<-s.first
	write(t, filepath.Join(dir, red), "10.0.0.2 vm1.x. vm1\n")
	await(t, s, red, "vm1.", "[10.0.0.2]")
	write(t, filepath.Join(dir, blue), "10.0.0.3 vm1.x. vm1\n")
	await(t, s, blue, "vm1.", "[10.0.0.3]")
	if got := lookup(s, red, "vm1."); got != "[10.0.0.2]" {
		t.Errorf("red has %s", got)
	}
	if err := os.RemoveAll(filepath.Join(dir, red)); err != nil {
		t.Fatal(err)
	}
	await(t, s, red, "vm1.", "no network")
	write(t, filepath.Join(dir, red), "10.0.0.4 vm1.x. vm1\n")
	await(t, s, red, "vm1.", "[10.0.0.4]")
	write(t, filepath.Join(dir, red), "10.0.0.5 vm1.x. vm1\n")
	await(t, s, red, "vm1.", "[10.0.0.5]")
	if err := os.WriteFile(filepath.Join(dir, red, fileName), []byte("10.0.0.6 vm1\n"), 0o600); err != nil {
		t.Fatal(err) // written in place
	}
	await(t, s, red, "vm1.", "[10.0.0.6]")
	if err := os.Remove(filepath.Join(dir, red, fileName)); err != nil {
		t.Fatal(err)
	}
	await(t, s, red, "vm1.", "no network")
	if got := s.Snapshot().Stats; got != (Stats{Networks: 1, Names: 2}) {
		t.Errorf("%+v", got)
	}

	// The whole tree goes, and comes back by a rename.
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	await(t, polling, blue, "vm1.", "no network")
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	await(t, polling, blue, "vm1.", "[10.0.0.3]")
	write(t, filepath.Join(dir, blue), "10.0.0.7 vm1\n")
	await(t, polling, blue, "vm1.", "[10.0.0.7]")
}

// With routed networks an agent has a folder for each segment, and a network a file in each.
func TestSegments(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "101", red), "10.1.0.1 vm1\n")
	s, _ := follow(t, dir)
	write(t, filepath.Join(dir, "102", red), "10.2.0.1 vm1\n10.2.0.2 vm2\n")
	await(t, s, red, "vm2.", "[10.2.0.2]")
	await(t, s, red, "vm1.", "[10.1.0.1 10.2.0.1]")
	write(t, filepath.Join(dir, "101", red), "10.1.0.9 vm1\n")
	await(t, s, red, "vm1.", "[10.1.0.9 10.2.0.1]")
	if err := os.RemoveAll(filepath.Join(dir, "102")); err != nil {
		t.Fatal(err)
	}
	await(t, s, red, "vm1.", "[10.1.0.9]")
	// No others are looked at.
	for _, other := range []string{"not-a-network", "1a", red + "0", filepath.Join("101", "102", blue)} {
		write(t, filepath.Join(dir, other), "10.9.0.1 vm9\n")
	}
	write(t, filepath.Join(dir, "101", red), "10.1.0.8 vm1\n")
	await(t, s, red, "vm1.", "[10.1.0.8]")
	if got := s.Snapshot().Stats.Networks; got != 1 {
		t.Errorf("%d networks", got)
	}
}

// The folder of a segment that can't be listed any more leaves the names that it had.
func TestSegmentUnreadable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	segment, loop := filepath.Join(dir, "102"), filepath.Join(dir, "loop")
	write(t, filepath.Join(dir, "101", red), "10.1.0.1 vm1\n")
	write(t, filepath.Join(dir, "101", green), "10.1.0.1 vm1\n")
	write(t, filepath.Join(segment, red), "10.2.0.2 vm2\n")
	if err := os.Symlink("102", loop); err != nil {
		t.Fatal(err)
	}
	s, _ := follow(t, dir)
	if err := unix.Renameat2(unix.AT_FDCWD, segment, unix.AT_FDCWD, loop, unix.RENAME_EXCHANGE); err != nil {
		t.Fatal(err)
	}
	// Any other network may be in it.
	await(t, s, blue, "vm1.", "unread")
	await(t, s, red, "vm2.", "[10.2.0.2]")
	await(t, s, red, "vm1.", "[10.1.0.1]")
	if got := lookup(s, "no-network", "vm1."); got != "no network" {
		t.Errorf("what is no folder of a network: %s", got)
	}
	// One that is found elsewhere may have a part in it.
	write(t, filepath.Join(dir, "101", blue), "10.1.0.2 vm1\n")
	write(t, filepath.Join(dir, "101", green), "10.1.0.4 vm1\n")
	await(t, s, green, "vm1.", "[10.1.0.4]")
	if got := lookup(s, blue, "vm1."); got != "unread" {
		t.Errorf("a network that is found elsewhere: %s", got)
	}
	// It is there again.
	if err := unix.Renameat2(unix.AT_FDCWD, loop, unix.AT_FDCWD, segment, unix.RENAME_EXCHANGE); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(segment, red), "10.2.0.3 vm2\n")
	await(t, s, red, "vm2.", "[10.2.0.3]")
	await(t, s, blue, "vm1.", "[10.1.0.2]")
	if err := os.RemoveAll(filepath.Join(dir, "101", blue)); err != nil {
		t.Fatal(err)
	}
	await(t, s, blue, "vm1.", "no network")
}

// A root that can't be listed may have any network.
func TestRootUnreadable(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "dhcp")
	if err := os.Symlink(dir, dir); err != nil {
		t.Fatal(err)
	}
	s, _ := follow(t, dir)
	if got := lookup(s, red, "vm1."); got != "unread" {
		t.Errorf("in a link to itself: %s", got)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	await(t, s, red, "vm1.", "no network") // by the poll
}

// A root that is a file is told of like one that can't be read, but hides no network.
func TestRootIsFile(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "dhcp")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s, log := follow(t, dir)
	if got := s.Problems(); len(got) != 1 || got[0] != dir+": not a folder; expected dhcp_confs of Neutron's DHCP agent" || log.Count("not a folder") != 1 || log.Count("") != 1 {
		t.Errorf("problems %q, log %q", got, log.All())
	}
	if got := lookup(s, red, "vm1."); got != "no network" {
		t.Errorf("%s, want no network", got)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, red), "10.0.0.1 vm1\n")
	await(t, s, red, "vm1.", "[10.0.0.1]")
	if got := s.Problems(); len(got) != 0 || log.Count("all files are read") != 1 {
		t.Errorf("problems %q, log %q", got, log.All())
	}
}

// A file that can't be read leaves the names that were known, and is told once.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, red), "10.0.0.1 vm1\n")
	if err := os.MkdirAll(filepath.Join(dir, blue), 0o755); err != nil {
		t.Fatal(err)
	}
	// A pipe that nobody writes, and a link.
	if err := syscall.Mkfifo(filepath.Join(dir, blue, fileName), 0o644); err != nil {
		t.Fatal(err)
	}
	s, log := follow(t, dir)
	if got := s.Problems(); len(got) != 1 || !strings.Contains(got[0], "not a regular file") || log.Count("not a regular file") != 1 {
		t.Errorf("problems %q, log %q", got, log.All())
	}
	if got := s.Snapshot().Stats.Unread; got != 1 {
		t.Errorf("%d unread", got)
	}
	if got := lookup(s, blue, "vm1."); got != "unread" {
		t.Errorf("of a pipe: %s", got)
	}
	// Without the file the network has no names.
	if err := os.Remove(filepath.Join(dir, blue, fileName)); err != nil {
		t.Fatal(err)
	}
	await(t, s, blue, "vm1.", "no network")
	if err := os.Mkdir(filepath.Join(dir, blue, fileName), 0o755); err != nil {
		t.Fatal(err)
	}
	await(t, s, blue, "vm1.", "unread")
	if err := os.Remove(filepath.Join(dir, blue, fileName)); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, blue), "10.0.0.2 vm1\n")
	await(t, s, blue, "vm1.", "[10.0.0.2]")
	if got := s.Problems(); len(got) != 0 || log.Count("all files are read") != 2 {
		t.Errorf("problems %q, log %q", got, log.All())
	}
	if err := os.Remove(filepath.Join(dir, red, fileName)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/hosts", filepath.Join(dir, red, fileName)); err != nil {
		t.Fatal(err)
	}
	await(t, s, blue, "vm1.", "[10.0.0.2]")
	awaitProblems(t, s, 1)
	if got := lookup(s, red, "localhost."); got == "[127.0.0.1]" {
		t.Error("a link was followed")
	}
}

func TestExplain(t *testing.T) {
	got := explain(&os.PathError{Op: "open", Path: "/d/f", Err: syscall.EACCES}, "/d/f", "r for it")
	if !strings.HasPrefix(got, "/d/f: permission denied for user ") || !strings.Contains(got, "; expected r for it, see deploy/puntdns.tmpfiles") {
		t.Error(got)
	}
}

// A bad line is logged and counted once, however often its file is written.
func TestBadLinesAreToldOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var text strings.Builder
	for i := range 20 {
		fmt.Fprintf(&text, "bad%d vm\n", i)
	}
	write(t, filepath.Join(dir, red), text.String()+"10.0.0.1 vm1\n")
	s, log := follow(t, dir)
	for i := range 3 {
		write(t, filepath.Join(dir, red), fmt.Sprintf("10.0.1.%d vm1\n", i)+text.String())
		await(t, s, red, "vm1.", fmt.Sprintf("[10.0.1.%d]", i))
	}
	if got := s.Snapshot().Stats.BadLines; got != 20 || log.Count("is skipped") != maxLogged || log.Count("15 further lines") != 1 {
		t.Errorf("%d bad lines, log %q", got, log.All())
	}
	write(t, filepath.Join(dir, red), "10.0.2.1 vm1\nworse vm\n")
	await(t, s, red, "vm1.", "[10.0.2.1]")
	if got := s.Snapshot().Stats.BadLines; got != 21 || log.Count(`"worse" is skipped`) != 1 {
		t.Errorf("%d bad lines, log %q", got, log.All())
	}
}

// Very many networks, and a burst of writes to all of them: the last ones count.
func TestBurst(t *testing.T) {
	t.Parallel()
	const networks, writes = 1000, 3
	dir := t.TempDir()
	id := func(i int) string { return fmt.Sprintf("11111111-aaaa-4bbb-8ccc-%012d", i) }
	s, _ := follow(t, dir)
	for w := range writes {
		for i := range networks {
			write(t, filepath.Join(dir, id(i)), fmt.Sprintf("10.0.%d.%d vm%d\n", w, i%256, i))
		}
	}
	for i := range networks {
		await(t, s, id(i), fmt.Sprintf("vm%d.", i), fmt.Sprintf("[10.0.%d.%d]", writes-1, i%256))
	}
	if got := s.Snapshot().Stats; got != (Stats{Networks: networks, Names: networks}) {
		t.Errorf("%+v", got)
	}
}

// Users of one folder share a Source, and the last one ends it.
func TestShared(t *testing.T) {
	dir := t.TempDir()
	a, b := Acquire(dir, &testkit.Lines{}), Acquire(dir, &testkit.Lines{})
	if a != b || len(All()) != 1 {
		t.Errorf("%p and %p, %d in all", a, b, len(All()))
	}
	a.Release()
	write(t, filepath.Join(dir, red), "10.0.0.1 vm1\n")
	await(t, b, red, "vm1.", "[10.0.0.1]")
	b.Release()
	if len(All()) != 0 {
		t.Errorf("%d are left", len(All()))
	}
}

// When the events have ended, what the poll finds is all.
func TestEventsEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log := &testkit.Lines{}
	s := Acquire(dir, log)
	if err := s.tree.inotify.file.Close(); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, red), "10.0.0.1 vm1\n")
	await(t, s, red, "vm1.", "[10.0.0.1]")
	s.Release()
	if s.tree.events() != nil {
		t.Error("a closed channel is received from")
	}
	if log.Count("inotify has ended") != 1 || log.Count("") != 1 {
		t.Errorf("log %q", log.All())
	}
}

// The events end while further ones are waited for.
func TestEventsEndWhileTheySettle(t *testing.T) {
	dir := t.TempDir()
	log := &testkit.Lines{}
	tr := newTree(dir, log)
	defer tr.close()
	write(t, filepath.Join(dir, red), "10.0.0.1 vm1\n")
	tr.inotify.close() // which returns when the channel of events is closed
	tr.take(t.Context(), event{-1, unix.IN_Q_OVERFLOW, ""})
	if tr.events() != nil || log.Count("inotify has ended") != 1 {
		t.Errorf("a closed channel is received from, or the log is %q", log.All())
	}
	if n := tr.files[red]; n == nil || !n.network.isRead() {
		t.Error("what had changed before is not read")
	}
}

func TestDecodeEvents(t *testing.T) {
	raw := func(wd int32, mask uint32, name string, room int) []byte {
		b := binary.NativeEndian.AppendUint32(nil, uint32(wd))
		b = binary.NativeEndian.AppendUint32(b, mask)
		b = binary.NativeEndian.AppendUint32(b, 0)
		b = binary.NativeEndian.AppendUint32(b, uint32(room))
		return append(b, append([]byte(name), make([]byte, room-len(name))...)...)
	}
	b := slices.Concat(raw(1, unix.IN_MOVED_TO, fileName, 16), raw(-1, unix.IN_Q_OVERFLOW, "", 0), raw(2, unix.IN_IGNORED, "", 0))
	var got []event
	decodeEvents(append(b, 1, 2, 3), func(e event) { got = append(got, e) })
	want := []event{{1, unix.IN_MOVED_TO, fileName}, {-1, unix.IN_Q_OVERFLOW, ""}, {2, unix.IN_IGNORED, ""}}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestChanged(t *testing.T) {
	for _, tt := range []struct {
		name string
		e    event
		id   string
		all  bool
	}{
		{"the file is replaced", event{2, unix.IN_MOVED_TO, fileName}, red, false},
		{"the file is written", event{2, unix.IN_CLOSE_WRITE, fileName}, red, false},
		{"the file is made, and still empty", event{2, unix.IN_CREATE, fileName}, "", false},
		{"another file", event{2, unix.IN_CLOSE_WRITE, "leases"}, "", false},
		{"the folder goes", event{2, unix.IN_DELETE_SELF, ""}, "", true},
		{"a network comes", event{1, unix.IN_CREATE | unix.IN_ISDIR, blue}, "", true},
		{"a file beside the networks", event{1, unix.IN_CREATE, "x"}, "", false},
		{"an overflow", event{-1, unix.IN_Q_OVERFLOW, ""}, "", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tr := tree{watches: map[int32]string{1: "", 2: red}}
			if id, all := tr.changed(tt.e); id != tt.id || all != tt.all {
				t.Errorf("%q, %v", id, all)
			}
		})
	}
}
