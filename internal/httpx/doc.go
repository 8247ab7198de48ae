// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package httpx is what the steps between the handler and the upstream are made of:
// bodies that can be replaced and put back, writers through which answers pass, errors
// in the words of the client's API, and panics that cost a request nothing.
package httpx
