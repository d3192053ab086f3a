// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/internal/process"
	"github.com/puntdns/puntdns/test/lab"
)

// fakeSystemctl tells one line of the file "status" after the other as the status of the unit, the
// last of them for ever, and writes down what it is to do. The unit is active unless there is a file
// "inactive".
const fakeSystemctl = `#!/bin/sh
cd "${0%/*}"
case "$*" in
show\ *puntdns-handover.service) ;;
show\ *)
	head -n 1 status
	[ "$(wc -l <status)" -eq 1 ] || sed -i 1d status
	;;
*is-active*) [ ! -e inactive ] ;;
cat\ *) echo "[Service]" ;;
daemon-reload) ;;
*)
	echo "$*" >>done
	[ "$*" != "start puntdns-handover.service" ] || [ ! -e refuses ]
	;;
esac
`

// TestRestart runs the program of the packages with a systemctl of its own, which tells the texts that
// a process tells.
func TestRestart(t *testing.T) {
	unshare := need(t, "unshare")
	if os.Geteuid() != 0 {
		lab.Lack(t, "no root, to have another /run")
	}
	const (
		handover = "start puntdns-handover.service\nrestart puntdns.service\nstop puntdns-handover.service\nreset-failed puntdns-handover.service\n"
		refused  = "start puntdns-handover.service\nstop puntdns-handover.service\nreset-failed puntdns-handover.service\n"
		plain    = "restart puntdns.service\n"
		away     = "bridge br-int: " + process.OutOfSync
	)
	for _, tt := range []struct {
		name, status, file string
		done, said         string
		fails              bool
	}{
		{name: "all is served", status: process.Serving, done: handover},
		{name: "the new process does not serve", status: process.Serving, file: "refuses", done: refused, said: "the old one goes on", fails: true},
		{name: "nothing is served", status: "bridge br-int: the switch is not connected yet", done: plain},
		{name: "a database is away", status: away, said: "the old process goes on", fails: true},
		{name: "a database is away, and another bridge is not served", status: "bridge br-ex: the switch is not connected yet; " + away, said: "the old process goes on", fails: true},
		{name: "a database is away for a moment", status: strings.Repeat(away+"\n", 5) + process.Serving, done: handover},
		{name: "a database goes away behind the first look", status: process.Serving + "\n" + away + "\n" + process.Serving, done: handover},
		{name: "a database was away when the process has ended", status: away, file: "inactive", done: plain},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range map[string]string{"systemctl": fakeSystemctl, "journalctl": "#!/bin/sh\n", "sleep": "#!/bin/sh\n", "status": tt.status + "\n", tt.file: ""} {
				if name == "" {
					continue
				}
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command(unshare, "--mount", "sh", "-euc", "mount -t tmpfs none /run; mkdir -p /run/systemd/system; exec sh package/restart")
			cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			done, _ := os.ReadFile(filepath.Join(dir, "done"))
			if string(done) != tt.done || (err != nil) != tt.fails || !strings.Contains(string(out), tt.said) {
				t.Errorf("%v, it has done\n%s\nwant\n%s\nand said\n%s", err, done, tt.done, out)
			}
		})
	}
}
