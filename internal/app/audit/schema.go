// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	_ "embed" // the schemas
	"fmt"
)

// schemaVersion is the version of the schemas, which a database that has one says. A
// later schema gets the next number, and statements that lead to it from each before.
const schemaVersion = 1

//go:embed schema/sqlite.sql
var sqliteSchema string

//go:embed schema/postgres.sql
var postgresSchema string

// newer is the error of a database that a later version of this program made.
func newer(version int) error {
	return fmt.Errorf("%w: it is of version %d, this program knows version %d", ErrNewer, version, schemaVersion)
}
