// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"embed"
	"fmt"
)

// Each file brings a schema one version further: 1.sql makes version 1 of an
// empty database. A file that was released is never changed.
//
//go:embed migrations
var migrations embed.FS

// latest is the version of the schema that this program reads and writes.
const latest = 7

// migration returns the statements that lead to a version of a schema.
func migration(dialect string, version int) (string, error) {
	b, err := migrations.ReadFile(fmt.Sprintf("migrations/%s/%d.sql", dialect, version))
	if err != nil {
		return "", fmt.Errorf("audit: no migration of %s to version %d: %w", dialect, version, err)
	}
	return string(b), nil
}

// newer is the error of a database that a later version of this program made.
func newer(version int) error {
	return fmt.Errorf("%w: it is of version %d, this program knows those up to %d", ErrNewer, version, latest)
}
