// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package httpx has the building blocks of the layers between handler and upstream: bodies that can
// be replaced and restored, response writers, errors in the format of the client's API, and
// recovery from panics.
package httpx
