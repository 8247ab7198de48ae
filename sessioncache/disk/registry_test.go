// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package disk_test

import _ "github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/formats"
