/* bulk_copies.h: the copy engine: boxes are copied to shared memory and signal an mbarrier, or
 * to global memory and are waited for by groups. */
#ifndef ATT_VGPU_BULK_COPIES_H
#define ATT_VGPU_BULK_COPIES_H

#include "tests/virtual_gpu/ptx.h"
#include "tests/virtual_gpu/tensor_box.h"

/* Load the box; its bytes arrive at `barrier`, in the block of box->shared. */
void bulk_load(ptx_frame *frame, const tensor_box *box, unsigned barrier);

/* Store or add the box from shared memory. */
void bulk_store(ptx_frame *frame, const tensor_box *box, bool adds);

#endif
