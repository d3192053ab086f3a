// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// deploy/package/restart looks for these texts in the status that TellStatus sends.
const (
	// Serving is the status of a process that serves.
	Serving = "serving"
	// OutOfSync is the reason of a bridge that puntdns serves from data read earlier.
	OutOfSync = "a database is not in sync"
)

// Intervals between calls of notReady: startInterval until the process first serves, since a restart waits
// for READY=1, and statusInterval later.
const (
	startInterval  = 100 * time.Millisecond
	statusInterval = time.Second
)

// TellStatus reports to the service manager (sd_notify(3)) whether the process serves. It sends STATUS= with
// the reasons at each change, and READY=1 whenever the process begins to serve. notReady returns a reason for
// each thing that is not served; TellStatus polls it, since some reasons end without an event. TellStatus
// retries a message that can't be sent. It returns when ctx ends, and at once without a service manager.
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
			case err != nil: // the next round tries again
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
