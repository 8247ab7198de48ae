// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	_ "embed" // the schemas
	"fmt"
)

// schemaVersion is the version of the schemas, and stored in each database. A later schema gets the
// next number, and statements for the migration from each earlier one.
const schemaVersion = 1

//go:embed schema/sqlite.sql
var sqliteSchema string

//go:embed schema/postgres.sql
var postgresSchema string

func newer(version int) error {
	return fmt.Errorf("%w: it is of version %d, this program knows version %d", ErrNewer, version, schemaVersion)
}
