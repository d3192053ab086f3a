// SPDX-License-Identifier: Apache-2.0

package puntctl

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// progressAfter is the delay before the first display, and between updates.
const progressAfter = time.Second

// showProgress shows what the command waits for on a terminal. end removes the line.
func showProgress(w io.Writer, what string) (end func()) {
	if !isTerminal(w) {
		return func() {}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		begun, t := time.Now(), time.NewTicker(progressAfter)
		defer t.Stop()
		shown := false
		for {
			select {
			case <-done:
				if shown {
					fmt.Fprint(w, "\r\x1b[K")
				}
				return
			case <-t.C:
				shown = true
				fmt.Fprintf(w, "\r\x1b[K%s, %.0f s", what, time.Since(begun).Seconds())
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}
