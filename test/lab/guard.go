// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// mark is the environment variable that every process of a lab carries. Its
// value is the lab's folder.
const mark = "PUNTDNS_LAB"

// guardScript waits for the end of the process that holds the other end of its
// standard input, ends what bears the lab's mark and removes the folder. A
// parent-death signal reaches only children, not theirs; a dying daemon may
// still create a file, hence the repetition.
const guardScript = `
trap '' HUP INT QUIT TERM
cat >/dev/null
for round in 1 2 3 4 5 6 7 8 9 10; do
	found=$(grep -lzxF "$1=$2" /proc/[0-9]*/environ 2>/dev/null)
	for file in $found; do
		pid=${file#/proc/}
		kill -9 "${pid%/environ}" 2>/dev/null
	done
	[ -z "$found" ] && rm -rf -- "$2" && exit 0
	sleep 0.05
done
exit 1
`

// guard is the process that outlives a lab's, if only by a moment.
type guard struct {
	cmd  *exec.Cmd
	life *os.File
}

func startGuard(dir string) (*guard, error) {
	sh, err := program("sh")
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	cmd := exec.Command(sh, "-c", guardScript, "lab-guard", mark, dir)
	cmd.Stdin = r
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := onSpawner(cmd.Start); err != nil {
		w.Close()
		return nil, fmt.Errorf("guard: %w", err)
	}
	return &guard{cmd: cmd, life: w}, nil
}

// close lets the guard do its work and waits for it.
func (g *guard) close() error {
	if err := g.life.Close(); err != nil {
		return err
	}
	if err := g.cmd.Wait(); err != nil {
		return fmt.Errorf("guard could not clear the lab: %w", err)
	}
	return nil
}
