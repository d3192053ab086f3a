// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// deploy/package/restart looks for these texts in the status that TellStatus tells.
const (
	// Serving is the status of a process that serves.
	Serving = "serving"
	// OutOfSync is the reason of a bridge that is served from what was read of the databases before.
	OutOfSync = "a database is not in sync"
)

// How often the reasons are asked for: until the process serves for the first time, which a restart
// waits for, and later.
const (
	startInterval  = 100 * time.Millisecond
	statusInterval = time.Second
)

// TellStatus tells the service manager (sd_notify(3)) whether the process serves, and if not, why:
// with STATUS= at each change, and with READY=1 whenever it begins to serve. notReady returns a
// reason for each thing that is not served; it is asked all the time, since some reasons end
// without an event. TellStatus returns at the end of ctx, and at once if there is no service
// manager. What can't be sent is sent again.
func TellStatus(ctx context.Context, notReady func() []string) {
	told, interval := "", startInterval
	for {
		message := "STATUS=" + strings.Join(notReady(), "; ")
		if message == "STATUS=" {
			message = daemon.SdNotifyReady + "\nSTATUS=" + Serving
			interval = statusInterval
		}
		if message != told {
			switch sent, err := daemon.SdNotify(false, message); {
			case err != nil: // it is tried again
			case !sent:
				return
			default:
				told = message
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(interval):
		}
	}
}
