// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	_ "embed" // the schemas
	"fmt"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/version"
)

// schemaVersion is the version of the schemas, and stored in each database, see [version.Major]. A later schema
// gets a higher number, and statements for the migration from each earlier one. A minor version only adds columns
// with defaults, and tables.
const schemaVersion = 1

//go:embed schema/sqlite.sql
var sqliteSchema string

//go:embed schema/postgres.sql
var postgresSchema string

func isNewer(found int) bool { return version.Major(found) > version.Major(schemaVersion) }

func newer(found int) error {
	return fmt.Errorf("%w: it is of version %d, this program knows version %d", ErrNewer, found, schemaVersion)
}
