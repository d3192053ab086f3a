// SPDX-License-Identifier: Apache-2.0

// Package problem records the unusable values of the databases. Each row or network has a [Set] of problems,
// which changes with its columns. A [Registry] sums the sets of all present rows and networks, and reports new
// problems.
package problem
