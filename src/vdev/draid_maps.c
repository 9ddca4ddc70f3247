/*
 * draid_maps.c: the permutations of dRAID, made from the fixed seeds of docs/format/06-allocation-and-vdevs.md, 7.2 and
 * Appendix A.
 */
#include "vdev/stripe.h"

#define SEED_BASE UINT64_C(0xd7a1d5eed)

/* clang-format off */
static const struct {
	uint64_t seed;
	uint64_t checksum; /* first Fletcher-4 word of the map */
} maps[] = { /* from 2 children on */
	{ 0x89ef3dabbcc7de37, 0x0000433d433d }, /* 2 */
	{ 0x89a57f3de98121b4, 0x0000bcd8b7b5 }, /* 3 */
	{ 0xc9ea9ec82340c885, 0x0001819d7c69 }, /* 4 */
	{ 0xf46733b7f4d47dfd, 0x0002a1648d74 }, /* 5 */
	{ 0x88c3c62d8585b362, 0x0003d3b0c2c4 }, /* 6 */
	{ 0x3a65d809b4d1b9d5, 0x00055c4183ee }, /* 7 */
	{ 0xe98930e3c5d2e90a, 0x0006edfb0329 }, /* 8 */
	{ 0x5a5430036b982ccb, 0x0008ceaf6934 }, /* 9 */
	{ 0x92bf389e9eadac74, 0x000b26668c09 }, /* 10 */
	{ 0x74ccebf1dcf3ae80, 0x000dd691358c }, /* 11 */
	{ 0x8847e41a1a9f5671, 0x0010a0c63c8e }, /* 12 */
	{ 0x7481b56debf0e637, 0x001424121fe4 }, /* 13 */
	{ 0x559b8c44065f8967, 0x0016ab2ff079 }, /* 14 */
	{ 0x34c49545a2ee7f01, 0x001a6028efd6 }, /* 15 */
	{ 0xb85f4fa81a7698f7, 0x001e95ff5e66 }, /* 16 */
	{ 0x6353e47b7e47aba0, 0x0021a81fa0fe }, /* 17 */
	{ 0xaa549746b1cbb81c, 0x0026f02494c9 }, /* 18 */
	{ 0x892e343f2f31d690, 0x0029eb392835 }, /* 19 */
	{ 0x76914824db98cc3f, 0x003004f31a7c }, /* 20 */
	{ 0x4b3cbabf9cfb1d0f, 0x0036363a2408 }, /* 21 */
	{ 0xf45c77abb4f035d4, 0x0038dd0f3e84 }, /* 22 */
	{ 0x5e18bd7f3fd4baf4, 0x003f0660391f }, /* 23 */
	{ 0xa7b3a4d285d6503b, 0x00443dfc9ff6 }, /* 24 */
	{ 0x56ac7dd967521f5a, 0x004b03a87eb7 }, /* 25 */
	{ 0x3a42dfda4eb880f7, 0x00522c719bba }, /* 26 */
	{ 0xd200d2fc6b54bf60, 0x005760b4fdf5 }, /* 27 */
	{ 0xc52605bbd486c546, 0x005e00d8f74c }, /* 28 */
	{ 0xc761779e63cd762f, 0x0067be3cd85c }, /* 29 */
	{ 0xca577b1e07f85ca5, 0x006f5517f3e4 }, /* 30 */
	{ 0xfd50a593c518b3d4, 0x007370e7778f }, /* 31 */
	{ 0xc6c87ba5b042650b, 0x00f7eb08a156 }, /* 32 */
	{ 0xc3880d0c9d458304, 0x010734b5d160 }, /* 33 */
	{ 0xe920927e4d8b2c97, 0x0118c1edbce0 }, /* 34 */
	{ 0x8da7fcda87bde316, 0x012a3e9f9110 }, /* 35 */
	{ 0xcf09937491514a29, 0x013bd6a24bef }, /* 36 */
	{ 0x9b5abbf345cbd7cc, 0x014b9d90fac3 }, /* 37 */
	{ 0x506312a44668d6a9, 0x015e1b5f6148 }, /* 38 */
	{ 0x71659ede62b4755f, 0x0173ef029bcd }, /* 39 */
	{ 0xa7fde73fb74cf2d7, 0x01866fb72748 }, /* 40 */
	{ 0x19e8b461a1dea1d3, 0x01a046f76b23 }, /* 41 */
	{ 0x031c9b868cc3e976, 0x01afa64c49d3 }, /* 42 */
	{ 0xbaa5125faa781854, 0x01c76789e278 }, /* 43 */
	{ 0x4ed55052550d721b, 0x01d800ccd8eb }, /* 44 */
	{ 0x0fd63ddbdff90677, 0x01f08ad59ed2 }, /* 45 */
	{ 0x36d66546de7fdd6f, 0x02016f09574b }, /* 46 */
	{ 0x99f997e7eafb69d7, 0x021e42e47cb6 }, /* 47 */
	{ 0xbecd9c2571312c5d, 0x02320fe2872b }, /* 48 */
	{ 0xd97371329e488a32, 0x024cd73f2ca7 }, /* 49 */
	{ 0x30e9b136670749ee, 0x02681c83b0e0 }, /* 50 */
	{ 0x11ad6bc8f47aaeb4, 0x027e9261b5d5 }, /* 51 */
	{ 0x68e445300af432c1, 0x029aa0eb7dbf }, /* 52 */
	{ 0x910fb561657ea98c, 0x02b3dca04853 }, /* 53 */
	{ 0xd619693d8ce5e7a5, 0x02cc280e9c97 }, /* 54 */
	{ 0x24e281f564dbb60a, 0x02e9fa842713 }, /* 55 */
	{ 0x947a7d3bdaab44c5, 0x03046680f72e }, /* 56 */
	{ 0x2d44fec9c093e0de, 0x0324198ba810 }, /* 57 */
	{ 0x87743c272d29bb4c, 0x033ec48c9ac9 }, /* 58 */
	{ 0x96aa3b6f67f5d923, 0x034faead902c }, /* 59 */
	{ 0x94a4f1faf520b0d3, 0x037d713ab005 }, /* 60 */
	{ 0xb13ed3a272f711a2, 0x0397368f3cbd }, /* 61 */
	{ 0x3b1b11805fa4a64a, 0x03b8a5e2840c }, /* 62 */
	{ 0x4c74caad9172ba71, 0x03d4be280290 }, /* 63 */
	{ 0x035ff643923dd29e, 0x03fad6c355e1 }, /* 64 */
	{ 0x768e9171b11abd3c, 0x040eb07fed20 }, /* 65 */
	{ 0x75880e6f78a13ddd, 0x04433d6acf14 }, /* 66 */
	{ 0x910b9714f698a877, 0x0451ea65d5db }, /* 67 */
	{ 0x87f5db6f9fdcf5c7, 0x04732169e3f7 }, /* 68 */
	{ 0x836d4968fbaa3706, 0x04954068a380 }, /* 69 */
	{ 0xc567d73a036421ab, 0x04bd7cb7bd3d }, /* 70 */
	{ 0x619df40f240b8fed, 0x04e376c2e972 }, /* 71 */
	{ 0x42763a680d5bed8e, 0x05084275c680 }, /* 72 */
	{ 0x5866f064b3230431, 0x052906f2c9ab }, /* 73 */
	{ 0x9fa08548b1621a44, 0x054708019247 }, /* 74 */
	{ 0xb6053078ce0fc303, 0x0572cc5c72b0 }, /* 75 */
	{ 0x4a7aad7bf3890923, 0x058e987bc8e9 }, /* 76 */
	{ 0xe165613fd75b5a53, 0x05c20473a211 }, /* 77 */
	{ 0x3ff154ac878163a6, 0x05d659194bf3 }, /* 78 */
	{ 0x24b93ade0aa8a532, 0x060a201c4f8e }, /* 79 */
	{ 0xc18e2d14cd9bb554, 0x062c55cfe48c }, /* 80 */
	{ 0x98cc78302feb58b6, 0x066656a07194 }, /* 81 */
	{ 0xc6c5fd5a2abc0543, 0x067cff94fbf8 }, /* 82 */
	{ 0xa7962f514acbba21, 0x06ab7b5afa2e }, /* 83 */
	{ 0xba02545069ddc6dc, 0x06d19861364f }, /* 84 */
	{ 0x447c73192c35073e, 0x06fce315ce35 }, /* 85 */
	{ 0x48beef9e2d42b0c2, 0x0720a8e38b6b }, /* 86 */
	{ 0x4874cf98541a35e0, 0x0758382a2273 }, /* 87 */
	{ 0xad4cf8333a31127a, 0x0781e1651b1b }, /* 88 */
	{ 0x47ae4859d57888c1, 0x07b27edbe5bc }, /* 89 */
	{ 0x06f7723cfe5d1891, 0x07dc2a96d8eb }, /* 90 */
	{ 0xd4e44218d660576d, 0x080ac46f02d5 }, /* 91 */
	{ 0x7066702b0d5be1f2, 0x0832c96d154e }, /* 92 */
	{ 0x011209b4f9e11fb9, 0x085eefda104c }, /* 93 */
	{ 0x47ffba30a0b35708, 0x0899badc32dc }, /* 94 */
	{ 0x1a95a6ac4538aaa8, 0x08b6b69a42b2 }, /* 95 */
	{ 0xbda2b239bb2008eb, 0x08f22d2de38a }, /* 96 */
	{ 0x7ffa0bea90355c6c, 0x092e5b23b816 }, /* 97 */
	{ 0x1d56ba34be426795, 0x094f482e5d1b }, /* 98 */
	{ 0x0aa89d45c502e93d, 0x0977d94a98ce }, /* 99 */
	{ 0x54369449f6857774, 0x09c06c9b34cc }, /* 100 */
	{ 0xf7d4dd8445b46765, 0x09e5dc542259 }, /* 101 */
	{ 0xfa8866312f169469, 0x0a16b54eae93 }, /* 102 */
	{ 0xd8a5aea08aef3ff9, 0x0a381d2cbfe7 }, /* 103 */
	{ 0x66bcd2c3d5f9ef0e, 0x0a8191817be7 }, /* 104 */
	{ 0x3fb13a47a012ec81, 0x0ab562b9a254 }, /* 105 */
	{ 0x43100f01c9e5e3ca, 0x0aeee84c185f }, /* 106 */
	{ 0xca09c50ccee2d054, 0x0b1c359c047d }, /* 107 */
	{ 0xd7176732ac503f9b, 0x0b578bc52a73 }, /* 108 */
	{ 0xed206e51f8d9422d, 0x0b8083e0d960 }, /* 109 */
	{ 0x17ead5dc6ba0dcd6, 0x0bcfb1a32ca8 }, /* 110 */
	{ 0x5f1dc21e38a969eb, 0x0c0171becdd6 }, /* 111 */
	{ 0xddaa973de33ec528, 0x0c3edaba4b95 }, /* 112 */
	{ 0x2a5eccd7735a3630, 0x0c630664e7df }, /* 113 */
	{ 0xafcccee5c0b71446, 0x0cb65392f6e4 }, /* 114 */
	{ 0x8fa30c5e7b147e27, 0x0cd4db391e55 }, /* 115 */
	{ 0x5afe0711fdfafd82, 0x0d08cb4ec35d }, /* 116 */
	{ 0x533a6090238afd4c, 0x0d336f115d1b }, /* 117 */
	{ 0x90cf11b595e39a84, 0x0d8e041c2048 }, /* 118 */
	{ 0x0d61a3b809444009, 0x0dcb798afe35 }, /* 119 */
	{ 0x7f34da0f54b0d114, 0x0df3922664e1 }, /* 120 */
	{ 0xa52258d5b72f6551, 0x0e4d37a9872d }, /* 121 */
	{ 0xc1de54d7672878db, 0x0e6583a94cf6 }, /* 122 */
	{ 0x1d03354316a414ab, 0x0ebffc50308d }, /* 123 */
	{ 0xcebdcc377665412c, 0x0edee1997cea }, /* 124 */
	{ 0x4ddd4c04b1a12344, 0x0f21d64b373f }, /* 125 */
	{ 0x64fc8f94e3973658, 0x0f8f87a8896b }, /* 126 */
	{ 0x68765f78034a334e, 0x0fb8fe62197e }, /* 127 */
	{ 0xaf36b871a303e816, 0x0fec6f3afb1e }, /* 128 */
	{ 0x2a4cbf73866c3a28, 0x1027febfe4e5 }, /* 129 */
	{ 0x9cb128aacdcd3b2f, 0x106aa8ac569d }, /* 130 */
	{ 0x5511d41c55869124, 0x10bbd755ddf1 }, /* 131 */
	{ 0x42f92461937f284a, 0x10fb8bceb3b5 }, /* 132 */
	{ 0xe2d89a1cf6f1f287, 0x114cf5331e34 }, /* 133 */
	{ 0xdc631a038956200e, 0x116428d2adc5 }, /* 134 */
	{ 0xb2e5ac222cd236be, 0x11ca88e4d4d2 }, /* 135 */
	{ 0xbc7d8236655d88e7, 0x11e39cb94e66 }, /* 136 */
	{ 0x073e02d88d2d8e75, 0x123136c7933c }, /* 137 */
	{ 0x3ddb9c3873166be0, 0x1280e4ec6d52 }, /* 138 */
	{ 0x7d3b1a845420e1b5, 0x12c2e7cd6a44 }, /* 139 */
	{ 0x60102308aa7b2a6c, 0x12fc490e6c7d }, /* 140 */
	{ 0xdb22bb2f9eb894aa, 0x1343f5a85a1a }, /* 141 */
	{ 0xd853f879a13b1606, 0x13bb7d5f9048 }, /* 142 */
	{ 0x001620a03f804b1d, 0x13e74cc794fd }, /* 143 */
	{ 0xfdb52dda76fbf667, 0x1442d2f22480 }, /* 144 */
	{ 0xa9160110f66e24ff, 0x144b899f9dbb }, /* 145 */
	{ 0x77306a30379ae03b, 0x14cb98eb1f81 }, /* 146 */
	{ 0x14f5985d2752319d, 0x14feab821fc9 }, /* 147 */
	{ 0xa4b8ff11de7863f8, 0x154a0e60b9c9 }, /* 148 */
	{ 0x44b345426455c1b3, 0x15999c3c569c }, /* 149 */
	{ 0x272677826049b46c, 0x15c9697f4b92 }, /* 150 */
	{ 0x2f9216e2cd74fe40, 0x162b1f7bbd39 }, /* 151 */
	{ 0x706ae3e763ad8771, 0x1661371c55e1 }, /* 152 */
	{ 0xf7fd345307c2480e, 0x16e251f28b6a }, /* 153 */
	{ 0x6e94e3d26b3139eb, 0x16f2429bb8c6 }, /* 154 */
	{ 0x5458bbfbb781fcba, 0x173efdeca1b9 }, /* 155 */
	{ 0xa80e2afeccd93b33, 0x17bfdcb78adc }, /* 156 */
	{ 0x1e4ccbb22796cf9d, 0x1826fdcc39c9 }, /* 157 */
	{ 0x8fba4b676aaa3663, 0x1841a1379480 }, /* 158 */
	{ 0xf82b843814b315fa, 0x18886e19b8a3 }, /* 159 */
	{ 0x7f21e920ecf753a3, 0x191812ca0ea7 }, /* 160 */
	{ 0x48bb8ea2c4caa620, 0x192f310faccf }, /* 161 */
	{ 0x5cdb652b4952c91b, 0x199e1d7437c7 }, /* 162 */
	{ 0x6ac1ba6f78c06cd4, 0x19cd11f82c70 }, /* 163 */
	{ 0x9faf5f9ca2669a56, 0x1a18d5431f6a }, /* 164 */
	{ 0xaa57e9383eb01194, 0x1a9e7d253d85 }, /* 165 */
	{ 0x896967bf495c34d2, 0x1afb8319b9fc }, /* 166 */
	{ 0xdfad5f05de225f1b, 0x1b3a59c3093b }, /* 167 */
	{ 0xfd299a99f9f2abdd, 0x1bb6f1a10799 }, /* 168 */
	{ 0xdda239e798fe9fd4, 0x1bfae0c9692d }, /* 169 */
	{ 0x5fca670414a32c3e, 0x1c22129dbcff }, /* 170 */
	{ 0x1bb8934314b087de, 0x1c955db36cd0 }, /* 171 */
	{ 0xd96394b4b082200d, 0x1cfc8619b7e6 }, /* 172 */
	{ 0xb612a7735b1c8cbc, 0x1d303acdd585 }, /* 173 */
	{ 0x28e7430fe5875fe1, 0x1d7ed5b3697d }, /* 174 */
	{ 0x5038e89efdd981b9, 0x1dc40ec35c59 }, /* 175 */
	{ 0x075fd78f1d14db7c, 0x1e31c83b4a2b }, /* 176 */
	{ 0xc50fafdb5021be15, 0x1e7cdac82fbc }, /* 177 */
	{ 0xe6dc7572ce7b91c7, 0x1edd8bb454fc }, /* 178 */
	{ 0x21f7843e7beda537, 0x1f3a8e019d6c }, /* 179 */
	{ 0xc83385e20b43ec82, 0x1f70735ec137 }, /* 180 */
	{ 0xca818217dddb21fd, 0x201ca44c5a3c }, /* 181 */
	{ 0xe6035defea48f933, 0x2038e3346658 }, /* 182 */
	{ 0x47262a4f953dac5a, 0x20c2e554314e }, /* 183 */
	{ 0xe24c7246260873ea, 0x21197e618d64 }, /* 184 */
	{ 0xeef6b57c9b58e9e1, 0x217ea48ecddc }, /* 185 */
	{ 0x2becd3346e386142, 0x21c496d4a5f9 }, /* 186 */
	{ 0x63c6207bdf3b40a3, 0x220e0f2eec0c }, /* 187 */
	{ 0x3056ce8989767d4b, 0x228eb76cd137 }, /* 188 */
	{ 0x91af61c307cee780, 0x22e17e2ea501 }, /* 189 */
	{ 0xda359da225f6d54f, 0x2358a2debc19 }, /* 190 */
	{ 0x0a5f7a2a55607ba0, 0x238a79dac18c }, /* 191 */
	{ 0x27bb75bf5224638a, 0x2403a58e2351 }, /* 192 */
	{ 0x1ebfdb94630f5d0f, 0x2492a10cb339 }, /* 193 */
	{ 0x6eae5e51d9c5f6fb, 0x24ce4bf98715 }, /* 194 */
	{ 0x08d903b4daedc2e0, 0x250d1e15886c }, /* 195 */
	{ 0xc722a2f7fa7cd686, 0x258a99ed0c9e }, /* 196 */
	{ 0x8f71faf0e54e361d, 0x25dee11976f5 }, /* 197 */
	{ 0x87f64695c91a54e7, 0x264e00a43da0 }, /* 198 */
	{ 0xc719cbac2c336b92, 0x26d327277ac1 }, /* 199 */
	{ 0xe7e647afaf771ade, 0x27523a5c44bf }, /* 200 */
	{ 0x12d4b5c38ce8c946, 0x273898432545 }, /* 201 */
	{ 0xf2e0cd4067bdc94a, 0x27e47bb2c935 }, /* 202 */
	{ 0x21b79f14d6d947d3, 0x281e64977f0d }, /* 203 */
	{ 0x515093f952f18cd6, 0x289691a473fd }, /* 204 */
	{ 0xd47b160a1b1022c8, 0x2903e8b52411 }, /* 205 */
	{ 0xc02fc96684715a16, 0x297515608601 }, /* 206 */
	{ 0xef51e68efba72ed0, 0x29ef73604804 }, /* 207 */
	{ 0x9e3be6e5448b4f33, 0x2a2846ed074b }, /* 208 */
	{ 0x81d446c6d5fec063, 0x2a92ca693455 }, /* 209 */
	{ 0xff215de8224e57d5, 0x2b2271fe3729 }, /* 210 */
	{ 0xe2524d9ba8f69796, 0x2b64b99c3ba2 }, /* 211 */
	{ 0xf6b28e26097b7e4b, 0x2bd768b6e068 }, /* 212 */
	{ 0x893a487f30ce1644, 0x2c67f722b4b2 }, /* 213 */
	{ 0x386566c3fc9871df, 0x2cc1cf8b4037 }, /* 214 */
	{ 0x1e0ed78edf1f558a, 0x2d3948d36c7f }, /* 215 */
	{ 0xe3bc20c31e61f113, 0x2d6d6b12e025 }, /* 216 */
	{ 0xd6c3ad2e23021882, 0x2deff7572241 }, /* 217 */
	{ 0xb4a9f95cf0f69c5a, 0x2e67d537aa36 }, /* 218 */
	{ 0x6e98ed6f6c38e82f, 0x2e9720626789 }, /* 219 */
	{ 0x2e01edba33fddac7, 0x2f407c6b0198 }, /* 220 */
	{ 0x559d02e1f5f57ccc, 0x2fb6a5ab4f24 }, /* 221 */
	{ 0xac18f5a916adcd8e, 0x304ae1c5c57e }, /* 222 */
	{ 0x15789fbaddb86f4b, 0x306f6e019c78 }, /* 223 */
	{ 0xf4a9c36d5bc4c408, 0x30da40434213 }, /* 224 */
	{ 0xf640f90fd2727f44, 0x3189ed37b90c }, /* 225 */
	{ 0xb5313d390d61884a, 0x31e152616b37 }, /* 226 */
	{ 0x4bae6b3ce9160939, 0x321f40aeac42 }, /* 227 */
	{ 0x838c34480f1a66a1, 0x32f389c0f78e }, /* 228 */
	{ 0xb1c4a52c8e3d6060, 0x330062a40284 }, /* 229 */
	{ 0xe0f1110c6d0ed822, 0x338be435644f }, /* 230 */
	{ 0x9f1a8ccdcea68d4b, 0x34045a4e97e1 }, /* 231 */
	{ 0x3261ed62223f3099, 0x34702cfc401c }, /* 232 */
	{ 0xf2191e2311022d65, 0x3509dd19c9fc }, /* 233 */
	{ 0xf102a395c2033abc, 0x35654dc96fae }, /* 234 */
	{ 0x11fe378f027906b6, 0x35b5193b0264 }, /* 235 */
	{ 0xf777f2c026b337aa, 0x36704f5d9297 }, /* 236 */
	{ 0x1b04e9c2ee143f32, 0x36dfbb7af218 }, /* 237 */
	{ 0x2fcec95266f9352c, 0x3785c8df24a9 }, /* 238 */
	{ 0xfe2b0e47e427dd85, 0x37cbdf5da729 }, /* 239 */
	{ 0x72b49bf2225f6c6d, 0x382227c15855 }, /* 240 */
	{ 0x50486b43df7df9c7, 0x389b88be6453 }, /* 241 */
	{ 0x5192a3e53181c8ab, 0x38ddf3d67263 }, /* 242 */
	{ 0xe9f5d8365296fd5e, 0x399f1c6c9e9c }, /* 243 */
	{ 0xc740263f0301efa8, 0x3a147146512d }, /* 244 */
	{ 0x23cd0f2b5671e67d, 0x3ab10bcc0d9d }, /* 245 */
	{ 0x002ccc7e5cd41390, 0x3ad6cd14a6c0 }, /* 246 */
	{ 0x9aafb3c02544b31b, 0x3b8cb8779fb0 }, /* 247 */
	{ 0x72ba07a78b121999, 0x3c24142a5a3f }, /* 248 */
	{ 0x3d784aa58edfc7b4, 0x3cd084817d99 }, /* 249 */
	{ 0xaab750424d8004af, 0x3d506a8e098e }, /* 250 */
	{ 0x84403fcf8e6b5ca2, 0x3d4c54c2aec4 }, /* 251 */
	{ 0x71eb7455ec98e207, 0x3e655715cf2c }, /* 252 */
	{ 0xd752b4f19301595b, 0x3ecd7b2ca5ac }, /* 253 */
	{ 0xc4674129750499de, 0x3e99e86d3e95 }, /* 254 */
	{ 0x9772baff5cd12ef5, 0x3f895c019841 }, /* 255 */
};
/* clang-format on */
_Static_assert(ARRAY_LEN(maps) == VDEV_CHILDREN_MAX - 1, "one for 2 to 255 children");

struct generator {
	uint64_t s0, s1;
};

static uint64_t rotate(uint64_t v, unsigned n)
{
	return v << n | v >> (64 - n);
}

/* xoroshiro128++ */
static uint64_t generator_next(struct generator *g)
{
	uint64_t result = rotate(g->s0 + g->s1, 17) + g->s0;
	uint64_t t = g->s1 ^ g->s0;

	g->s0 = rotate(g->s0, 49) ^ t ^ t << 21;
	g->s1 = rotate(t, 28);
	return result;
}

static void swap(uint16_t *a, uint16_t *b)
{
	uint16_t t = *a;

	*a = *b;
	*b = t;
}

static void map_fill(uint16_t *map, unsigned children, unsigned nrows)
{
	struct generator g = {SEED_BASE, maps[children - 2].seed};

	for (unsigned i = 0; i < nrows; i++) {
		uint16_t *row = map + (size_t)i * children;
		for (unsigned j = 0; j < children; j++)
			row[j] = i ? (row - children)[j] : (uint16_t)j;
		for (unsigned j = children - 1; j > 0; j--)
			swap(&row[j], &row[generator_next(&g) % (j + 1)]);
	}
}

/* Deal each child's number out to the failure groups of a block of `domains` rows. */
static void map_spread(uint16_t *map, unsigned children, unsigned domains, unsigned nrows)
{
	struct generator g = {SEED_BASE, maps[children - 2].seed};
	unsigned at[VDEV_CHILDREN_MAX];

	for (unsigned i = 0; i + domains <= nrows; i += domains) {
		uint16_t *block = map + (size_t)i * children;
		for (unsigned j = 0; j < children; j++) {
			unsigned value = block[j];
			at[0] = j;
			for (unsigned k = 1; k < domains; k++) {
				uint16_t *row = block + (size_t)k * children;
				for (at[k] = 0; row[at[k]] != value; at[k]++)
					;
				row[at[k]] = (uint16_t)(value + k * children);
			}
			for (unsigned k = domains - 1; k >= 1; k--) {
				unsigned l = (unsigned)(generator_next(&g) % (k + 1));
				if (l != k)
					swap(block + (size_t)k * children + at[k],
					     block + (size_t)l * children + at[l]);
			}
		}
	}
}

uint16_t *draid_map_generate(unsigned children, unsigned domains, unsigned *nrows)
{
	*nrows = children < 32 ? DRAID_ROWS_SMALL : DRAID_ROWS_LARGE;
	uint16_t *map = xmalloc((size_t)*nrows * children * sizeof(*map));
	map_fill(map, children, *nrows);
	if (domains > 1) {
		*nrows -= *nrows % domains;
		map_spread(map, children, domains, *nrows);
	}
	return map;
}

uint64_t draid_map_checksum(unsigned children, bool generated)
{
	unsigned nrows;
	uint64_t sum = 0;

	if (!generated)
		return maps[children - 2].checksum;
	autofree uint16_t *map = draid_map_generate(children, 1, &nrows);
	size_t n = (size_t)nrows * children / 4;
	for (size_t i = 0; i < n; i++) /* little-endian words of bytes */
		sum += map[4 * i] | map[4 * i + 1] << 8 | map[4 * i + 2] << 16 | (uint32_t)map[4 * i + 3] << 24;
	return sum;
}
