// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

#include "textflag.h"

// The tile of a has its rows at AX, AX+DX, AX+2DX, R8 = AX+3DX and so on, that
// of c lies in one piece.

#define LOAD(c0, c1, c2, at) \
	VMOVDQU32 at+0(DI), c0   \
	VMOVDQU32 at+64(DI), c1  \
	VMOVDQU32 at+128(DI), c2

#define STORE(c0, c1, c2, at) \
	VMOVDQU32 c0, at+0(DI)    \
	VMOVDQU32 c1, at+64(DI)   \
	VMOVDQU32 c2, at+128(DI)

#define ROW512(at, v, c0, c1, c2) \
	VPBROADCASTD at, v     \
	VPDPBUSD     Z0, v, c0 \
	VPDPBUSD     Z1, v, c1 \
	VPDPBUSD     Z2, v, c2

// func multiplyBytes8x48(c *int32, a *uint8, aStride int, b *int8, depth int)
TEXT ·multiplyBytes8x48(SB), NOSPLIT, $0-40
	MOVQ c+0(FP), DI
	MOVQ a+8(FP), AX
	MOVQ aStride+16(FP), DX
	MOVQ b+24(FP), BX
	MOVQ depth+32(FP), CX
	LEAQ (DX)(DX*2), R10
	LEAQ (AX)(R10*1), R8
	LEAQ (R8)(R10*1), R9
	LOAD(Z8, Z9, Z10, 0)
	LOAD(Z11, Z12, Z13, 192)
	LOAD(Z14, Z15, Z16, 384)
	LOAD(Z17, Z18, Z19, 576)
	LOAD(Z20, Z21, Z22, 768)
	LOAD(Z23, Z24, Z25, 960)
	LOAD(Z26, Z27, Z28, 1152)
	LOAD(Z29, Z30, Z31, 1344)

loop:
	VMOVDQU32 (BX), Z0
	VMOVDQU32 64(BX), Z1
	VMOVDQU32 128(BX), Z2
	ROW512((AX), Z3, Z8, Z9, Z10)
	ROW512((AX)(DX*1), Z4, Z11, Z12, Z13)
	ROW512((AX)(DX*2), Z5, Z14, Z15, Z16)
	ROW512((R8), Z6, Z17, Z18, Z19)
	ROW512((R8)(DX*1), Z7, Z20, Z21, Z22)
	ROW512((R8)(DX*2), Z3, Z23, Z24, Z25)
	ROW512((R9), Z4, Z26, Z27, Z28)
	ROW512((R9)(DX*1), Z5, Z29, Z30, Z31)
	ADDQ $4, AX
	ADDQ $4, R8
	ADDQ $4, R9
	ADDQ $192, BX
	DECQ CX
	JNZ  loop

	STORE(Z8, Z9, Z10, 0)
	STORE(Z11, Z12, Z13, 192)
	STORE(Z14, Z15, Z16, 384)
	STORE(Z17, Z18, Z19, 576)
	STORE(Z20, Z21, Z22, 768)
	STORE(Z23, Z24, Z25, 960)
	STORE(Z26, Z27, Z28, 1152)
	STORE(Z29, Z30, Z31, 1344)
	VZEROUPPER
	RET

// Of two products at a time the sum fits into 16 bits: weights have 7.
#define PRODUCT(b, c) \
	VPMADDUBSW b, Y2, Y4 \
	VPMADDWD   Y3, Y4, Y4 \
	VPADDD     Y4, c, c

#define ROW256(at, c0, c1) \
	VPBROADCASTD at, Y2 \
	PRODUCT(Y0, c0)     \
	PRODUCT(Y1, c1)

// func multiplyBytes4x16(c *int32, a *uint8, aStride int, b *int8, depth int)
TEXT ·multiplyBytes4x16(SB), NOSPLIT, $0-40
	MOVQ c+0(FP), DI
	MOVQ a+8(FP), AX
	MOVQ aStride+16(FP), DX
	MOVQ b+24(FP), BX
	MOVQ depth+32(FP), CX
	LEAQ (AX)(DX*2), R8
	VPCMPEQW Y3, Y3, Y3
	VPABSW   Y3, Y3
	VMOVDQU  (DI), Y8
	VMOVDQU  32(DI), Y9
	VMOVDQU  192(DI), Y10
	VMOVDQU  224(DI), Y11
	VMOVDQU  384(DI), Y12
	VMOVDQU  416(DI), Y13
	VMOVDQU  576(DI), Y14
	VMOVDQU  608(DI), Y15

loop:
	VMOVDQU (BX), Y0
	VMOVDQU 32(BX), Y1
	ROW256((AX), Y8, Y9)
	ROW256((AX)(DX*1), Y10, Y11)
	ROW256((R8), Y12, Y13)
	ROW256((R8)(DX*1), Y14, Y15)
	ADDQ $4, AX
	ADDQ $4, R8
	ADDQ $192, BX
	DECQ CX
	JNZ  loop

	VMOVDQU Y8, (DI)
	VMOVDQU Y9, 32(DI)
	VMOVDQU Y10, 192(DI)
	VMOVDQU Y11, 224(DI)
	VMOVDQU Y12, 384(DI)
	VMOVDQU Y13, 416(DI)
	VMOVDQU Y14, 576(DI)
	VMOVDQU Y15, 608(DI)
	VZEROUPPER
	RET

// func widens(dst *[tileCols]float32, c *[tileCols]int32, scale float32, zero int32, scales *[tileCols]float32, sums *[tileCols]int32, bias *[tileCols]float32)
TEXT ·widens(SB), NOSPLIT, $0-48
	MOVQ dst+0(FP), DI
	MOVQ c+8(FP), SI
	VBROADCASTSS scale+16(FP), Y8
	MOVL zero+20(FP), R10
	VMOVD R10, X9
	VPBROADCASTD X9, Y9
	MOVQ scales+24(FP), AX
	MOVQ sums+32(FP), BX
	MOVQ bias+40(FP), DX
	MOVQ $6, CX

loop:
	VPMULLD     (BX), Y9, Y0
	VMOVDQU     (SI), Y1
	VPSUBD      Y0, Y1, Y1
	VCVTDQ2PS   Y1, Y1
	VMULPS      (AX), Y8, Y2
	VMOVUPS     (DX), Y3
	VFMADD231PS Y2, Y1, Y3
	VMOVUPS     Y3, (DI)
	ADDQ $32, DI
	ADDQ $32, SI
	ADDQ $32, AX
	ADDQ $32, BX
	ADDQ $32, DX
	DECQ CX
	JNZ  loop
	VZEROUPPER
	RET

// func range32(x *float32, n int) (low, high float32)
TEXT ·range32(SB), NOSPLIT, $0-24
	MOVQ x+0(FP), DI
	MOVQ n+8(FP), CX
	VMOVUPS (DI), Y0
	VMOVAPS Y0, Y1

loop:
	VMOVUPS (DI), Y2
	VMINPS Y2, Y0, Y0
	VMAXPS Y2, Y1, Y1
	ADDQ $32, DI
	SUBQ $8, CX
	JNZ  loop

	VEXTRACTF128 $1, Y0, X2
	VMINPS X2, X0, X0
	VSHUFPS $0x4E, X0, X0, X2
	VMINPS X2, X0, X0
	VSHUFPS $0xB1, X0, X0, X2
	VMINPS X2, X0, X0
	VEXTRACTF128 $1, Y1, X2
	VMAXPS X2, X1, X1
	VSHUFPS $0x4E, X1, X1, X2
	VMAXPS X2, X1, X1
	VSHUFPS $0xB1, X1, X1, X2
	VMAXPS X2, X1, X1
	VMOVSS X0, low+16(FP)
	VMOVSS X1, high+20(FP)
	VZEROUPPER
	RET

// func bytes8(dst *uint8, x *float32, n int, inverse float32, zero int32)
TEXT ·bytes8(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), CX
	VBROADCASTSS inverse+24(FP), Y8
	MOVL zero+28(FP), R10
	VMOVD R10, X9
	VPBROADCASTD X9, Y9

loop:
	VMULPS (SI), Y8, Y0
	VCVTPS2DQ Y0, Y0
	VPADDD Y9, Y0, Y0
	VEXTRACTI128 $1, Y0, X1
	VPACKSSDW X1, X0, X0
	VPACKUSWB X0, X0, X0
	VMOVQ X0, (DI)
	ADDQ $32, SI
	ADDQ $8, DI
	SUBQ $8, CX
	JNZ  loop
	VZEROUPPER
	RET
